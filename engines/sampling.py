"""One token for every row: greedy, or the inverse of the cumulative distribution at a given draw.

The draws come from outside, one per completion and position, so that a row's randomness depends on
no other row and on no batch size.
"""

import torch


def pick(
    logits: torch.Tensor, draws: torch.Tensor, temperature: float, top_p: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose tokens.

    Args:
        logits: shape (batch, vocabulary), float32.
        draws: shape (batch,), uniforms in [0, 1).
        temperature: 0 is greedy.
        top_p: nucleus mass; the smallest set of most likely tokens that reaches it.

    Returns:
        Tokens, shape (batch,), and their log-probabilities before temperature and nucleus.
    """
    logs = torch.log_softmax(logits, dim=-1)
    if temperature == 0:
        tokens = logits.argmax(dim=-1)
    else:
        probabilities = torch.softmax(logits / temperature, dim=-1)
        if top_p < 1:
            probabilities, order = probabilities.sort(dim=-1, descending=True, stable=True)
            before = probabilities.cumsum(dim=-1) - probabilities
            probabilities = probabilities.masked_fill(before >= top_p, 0.0)
        sums = probabilities.cumsum(dim=-1)
        target = draws.unsqueeze(-1).to(sums.dtype) * sums[:, -1:]
        # The first token whose cumulated mass exceeds the target; never one without mass.
        places = torch.searchsorted(sums, target, right=True)
        last = (probabilities > 0).cumsum(dim=-1).argmax(dim=-1, keepdim=True)
        places = torch.minimum(places, last)
        tokens = (order.gather(-1, places) if top_p < 1 else places).squeeze(-1)
    return tokens, logs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)

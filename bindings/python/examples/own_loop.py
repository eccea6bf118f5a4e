"""RL of a policy in a loop of your own, with any method: sample, reward, one call for the credit, one for the loss.

The policy here is a table of next-token logits; put your model in its place. Needs torch.
"""

import torch

import grpo_lambda
from grpo_lambda.torch import loss

torch.manual_seed(0)
policy, end, rows, width = torch.nn.Embedding(5, 5), 4, 64, 8
optimiser = torch.optim.Adam(policy.parameters(), lr=0.05)
for step in range(31):
    tokens, mask, alive = [torch.zeros(rows, dtype=torch.long)], [], torch.ones(rows, dtype=torch.bool)
    with torch.no_grad():
        for _ in range(width):
            sampled = torch.distributions.Categorical(logits=policy(tokens[-1])).sample()
            mask, tokens, alive = [*mask, alive], [*tokens, sampled], alive & (sampled != end)
    tokens, mask = torch.stack(tokens, dim=1), torch.stack(mask, dim=1)
    rewards = ((tokens[:, 1:] == 2) & mask).any(dim=1).float()  # 1 if token 2 was written before the end
    logps = policy(tokens[:, :-1]).log_softmax(-1).gather(-1, tokens[:, 1:, None]).squeeze(-1)
    fixed = grpo_lambda.credit_padded(
        "grpo_lambda", rewards.tolist(), logps.detach().numpy(), mask.numpy(), group_size=8, lambda_=0.9
    )
    value, metrics = loss(fixed, logps)
    optimiser.zero_grad()
    value.backward()
    optimiser.step()
    if step % 10 == 0:
        print(f"step {step:2}: reward {rewards.mean():.2f}, loss {value.item():+.3f}, ratio {metrics['ratio_mean']:.2f}")

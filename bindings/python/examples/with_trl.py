"""TRL with one changed import, the convention of its loss, and a method in its place. Needs `pip install './bindings/python[trl]'`.

    python with_trl.py MODEL            # a checkpoint, by name or folder

"""

import sys

import torch
from datasets import Dataset
from trl import GRPOConfig

from grpo_lambda.trl import CreditTrainer as GRPOTrainer
from grpo_lambda.trl import answer_reward, record

model = sys.argv[1]
data = Dataset.from_list([{"prompt": f"{a} + {b} =", "answer": str(a + b)} for a in range(5) for b in range(5)])
reward = answer_reward("answer", extract="any")
gpu = torch.cuda.is_available()
shape = dict(max_steps=1, per_device_train_batch_size=8, num_generations=4, max_completion_length=8)
args = GRPOConfig("runs/trl", use_cpu=not gpu, bf16=gpu, report_to=[], **shape)

# 1. One changed import changes nothing. `record` says whose loss it is.
trainer = GRPOTrainer(model, [reward, lambda completion_ids, **_: [len(set(ids)) / 8 for ids in completion_ids]], args, data)
with record(trainer):
    trainer.train()

# 2. `method` changes one thing, and says which.
GRPOTrainer(model, reward, args, data, method="grpo_lambda", settings={"lambda": 0.95}).train()

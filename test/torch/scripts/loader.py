"""Training from a DataLoader with two workers and pinned memory, with validation between, as most scripts do."""

import torch
import torch_npu  # noqa: F401
from points import finish, point
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    """Points on a plane; the label is which side of a line they are on."""

    def __init__(self, seed, count):
        self.points = torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        point = self.points[index]
        return point, int(point[0] + 2 * point[1] > 0)


def main():
    torch.manual_seed(1)
    training = DataLoader(Points(1, 128), batch_size=16, shuffle=True, num_workers=2, pin_memory=True)
    validation = DataLoader(Points(2, 64), batch_size=32, num_workers=2)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2)).npu()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, fused=True)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    for epoch in range(3):
        model.train()
        for inputs, labels in training:
            inputs, labels = inputs.npu(non_blocking=True), labels.npu(non_blocking=True)
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            point()
        schedule.step()
        model.eval()
        right = 0
        with torch.no_grad():
            for inputs, labels in validation:
                right += (model(inputs.npu()).argmax(1) == labels.npu()).sum().item()
        print(f"loss {loss.item():.3f}, right {right} of 64 after epoch {epoch + 1}")
        point()
    assert right > 56, right
    finish()


if __name__ == "__main__":
    main()

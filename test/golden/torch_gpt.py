# Writes torch_gpt.txt: losses of a GPT of 12 layers that the real torch trains, on the CPU, in f32
# and in f64, over batches that 8 ranks share in the test.
#
#   python3 test/golden/torch_gpt.py > test/golden/torch_gpt.txt
#
# The model, its weights, data and optimizer are those of torch_training.py, in other sizes.
import torch
import torch_training as training

training.HIDDEN, training.HEADS, training.LAYERS = 64, 4, 12
training.SEQUENCE, training.BATCH, training.STEPS = 64, 8, 100
training.LEARNING_RATE = 1e-3

print("# torch", torch.__version__)
training.train_language_model("gpt", training.Gpt, torch.float32)
training.train_language_model("gpt-f64", training.Gpt, torch.float64)

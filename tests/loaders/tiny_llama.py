"""A LLaMA of random weights with a tokenizer of words, for tools to quantize: 2 blocks, grouped heads, an intermediate size
that is no multiple of 128."""

import torch

VOCABULARY = 512


def make(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(7)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=128, intermediate_size=288, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, initializer_range=0.08))
    model.half().save_pretrained(folder)
    words = {word: place for place, word in enumerate(["<unk>", "<s>", "</s>", "<pad>"])}
    words.update({f"w{place}": place for place in range(4, VOCABULARY)})
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>").save_pretrained(folder)


def calibration(samples=8, tokens=64):
    """Lists of ids, drawn evenly."""
    draw = torch.Generator().manual_seed(11)
    return [torch.randint(4, VOCABULARY, (tokens,), generator=draw).tolist() for _ in range(samples)]


def probe():
    """i64 [1, 96]: the ids whose logits are compared."""
    return [[(place * 7919) % (VOCABULARY - 4) + 4 for place in range(96)]]

"""Loaders of packed checkpoints that others wrote, each as a function of a folder that returns a function from token ids
[windows, tokens] to float32 logits [windows, tokens, vocab].

Nothing here may know how codes are packed: tensors are read by the loader's own code. Logits are computed in float32 from
what the loader holds, so that a difference is one of codes and grids and not of half-precision sums.
"""

import contextlib
import io
import json
import os
import tempfile

# Before any of them is imported: no network, no GPU, no compiler at run time.
os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="", TORCHDYNAMO_DISABLE="1", TOKENIZERS_PARALLELISM="false")


def torch_logits(model):
    import torch

    # transformers refuses .float() of a quantized model, not of a module.
    torch.nn.Module.float(model).eval()

    def logits(ids):
        with torch.no_grad():
            return model(input_ids=torch.as_tensor(ids)).logits.float()

    return logits


def gptqmodel(folder):
    """GPTQModel's TorchLinear, which dequantizes by its own code."""
    import torch

    module = import_gptqmodel()
    # float16, the dtype of the scales, is the widest that it takes; as a string it would become bfloat16.
    model = module.GPTQModel.load(str(folder), backend=module.BACKEND.TORCH, device="cpu", dtype=torch.float16)
    return torch_logits(model.model)


def import_gptqmodel():
    # Its thread pools refuse to start on fewer cores than they were planned for.
    cores = os.cpu_count
    os.cpu_count = lambda: max(8, cores() or 1)
    import gptqmodel as module

    return module


def auto_round(folder):
    """auto-round's QuantLinear, as transformers loads it. transformers refuses any folder of quant_method gptq that has
    `meta`, those of GPTQModel too, and auto-round calls v2 zero points a packing of its own: both are said here in the
    config that is handed over; the folder's tensors are read as they are."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoRoundConfig

    config = AutoConfig.from_pretrained(folder)
    settings = config.quantization_config
    settings.pop("meta", None)
    if settings["checkpoint_format"] == "gptq_v2":
        settings.update(quant_method="auto-round", packing_format="auto_round:gptqmodel")
    model = AutoModelForCausalLM.from_pretrained(
        folder, config=config, quantization_config=AutoRoundConfig(backend="torch"), device_map="cpu", dtype="float16")
    kinds = {type(module).__module__ for module in model.modules() if hasattr(module, "qweight")}
    assert kinds and all(kind.startswith("auto_round_extension.torch") for kind in kinds), kinds
    return torch_logits(model)


def transformers(folder):
    """transformers by itself: optimum puts GPTQModel's layers in, by config.json alone."""
    from transformers import AutoModelForCausalLM, GPTQConfig

    import_gptqmodel()
    model = AutoModelForCausalLM.from_pretrained(
        folder, device_map="cpu", dtype="float16", quantization_config=GPTQConfig(bits=4, backend="gptq_torch"))
    return torch_logits(model)


def onnxruntime(folder):
    """onnxruntime-genai's model builder repacks codes, zero points and group indices for ONNX Runtime's MatMulNBits."""
    import numpy
    import onnxruntime as runtime
    import torch
    from onnxruntime_genai.models.builder import create_model, parse_extra_options

    with tempfile.TemporaryDirectory() as made:
        where = ("", str(folder), made, "int4", "cpu", made)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            # Activations stay in float32, head and embedding dense.
            options = parse_extra_options(*where, ["accuracy_level=1", "nodes_to_exclude=/lm_head/MatMul,/model/embed_tokens/Gather"])
            create_model(*where, **options)
        session = runtime.InferenceSession(os.path.join(made, "model.onnx"), providers=["CPUExecutionProvider"])
    # No keys and values yet: [windows, heads, 0, head size].
    kept = [entry.name for entry in session.get_inputs() if entry.name.startswith("past_key_values.")]
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    shape = (config["num_key_value_heads"], 0, config["head_dim"])

    def logits(ids):
        ids = numpy.asarray(ids, numpy.int64)
        feed = {"input_ids": ids, "attention_mask": numpy.ones_like(ids)}
        feed.update({name: numpy.zeros((len(ids), *shape), numpy.float32) for name in kept})
        return torch.from_numpy(session.run(["logits"], feed)[0])

    return logits


def compressed_tensors(folder):
    """transformers with compressed-tensors, which unpacks LLM-Compressor's folders when they are loaded."""
    from transformers import AutoModelForCausalLM, CompressedTensorsConfig

    return torch_logits(AutoModelForCausalLM.from_pretrained(
        folder, dtype="float32", quantization_config=CompressedTensorsConfig(run_compressed=False)))


LOADERS = {"gptqmodel": gptqmodel, "auto_round": auto_round, "transformers": transformers, "onnxruntime": onnxruntime}

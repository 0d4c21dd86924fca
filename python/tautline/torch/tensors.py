"""The tensors of a model that become tables."""

import torch

from tautline.errors import InvalidError

Named = dict[str, torch.Tensor]


def tensors_of(model: torch.nn.Module, in_place: bool) -> tuple[Named, Named]:
    """A model's parameters that require a gradient, and its floating-point buffers, by their names.

    in_place  the tables' memory is theirs, which then must be contiguous
    """
    parameters: Named = {name: one for name, one in model.named_parameters() if one.requires_grad}
    buffers = {name: one for name, one in model.named_buffers()
               if one.is_floating_point() and one.numel() > 0}
    if not parameters:
        raise InvalidError("the model has no parameter that requires a gradient")
    for name, one in [*parameters.items(), *buffers.items()]:
        if one.device.type not in ("cpu", "cuda") or one.dtype != torch.float32:
            raise InvalidError(f"{name} is {one.dtype} on {one.device}; members take float32 on "
                               "the CPU or a CUDA device")
        if in_place and not one.is_contiguous():
            raise InvalidError(f"{name} is not contiguous; replace it by its .contiguous()")
    return parameters, buffers

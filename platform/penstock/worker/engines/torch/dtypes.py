"""The Open Inference Protocol's datatypes as torch's."""

import torch

from penstock.domain.models.tensors import Datatype

DTYPES = {
    Datatype.BOOL: torch.bool,
    Datatype.UINT8: torch.uint8,
    Datatype.UINT16: torch.uint16,
    Datatype.UINT32: torch.uint32,
    Datatype.UINT64: torch.uint64,
    Datatype.INT8: torch.int8,
    Datatype.INT16: torch.int16,
    Datatype.INT32: torch.int32,
    Datatype.INT64: torch.int64,
    Datatype.FP16: torch.float16,
    Datatype.BF16: torch.bfloat16,
    Datatype.FP32: torch.float32,
    Datatype.FP64: torch.float64,
}
DATATYPES = {dtype: datatype for datatype, dtype in DTYPES.items()}

class Pretender:
    """Looks like an array on a device through the CUDA array interface, and has no memory there."""

    def __init__(self, shape, typestr="<f4", strides=None, read_only=False, stream=None):
        self.shape = shape
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (4096, read_only),
            "version": 3,
            "strides": strides,
            "stream": stream,
        }

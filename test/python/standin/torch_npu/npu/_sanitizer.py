"""The NPU sanitizer, as far as its callers see it: launches are noted, and one of the operator "race" is an error."""


class CUDASanitizerErrors(Exception):
    """What the sanitizer raises."""

    def __init__(self, errors):
        super().__init__(errors)
        self.errors = errors


launches = []


class _EventHandler:
    def _handle_kernel_launch(self, stream, read_only, read_write, outputs, operator, aliases, storages=None):
        launches.append((stream, read_only, read_write, outputs, operator, aliases, storages))
        return ["a race in " + operator] if operator == "race" else []


class _Sanitizer:
    enabled = False
    event_handler = _EventHandler()


npu_sanitizer = _Sanitizer()


def enable_npu_sanitizer():
    npu_sanitizer.enabled = True

"""Server reflection, `grpc.reflection.v1` and `v1alpha`: lists services and messages for tools without the proto files.

Both versions have the same messages under different names; one implementation serves both.
"""

from __future__ import annotations

from collections.abc import Collection

import grpc
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import Default

from tsdb.servers.grpc._calls import GrpcCall, RpcService, parse_message, streaming_rpc
from tsdb.servers.grpc._session import Sessions
from tsdb.servers.grpc.proto import reflection_v1_pb2 as v1

SERVICES = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
FILES_MAX = 256
"""How many files one answer may hold."""

_NOT_FOUND = grpc.StatusCode.NOT_FOUND.value[0]
_UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED.value[0]


class Reflection:
    """Describes `names`, to authenticated clients."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._names: tuple[str, ...] = ()

    def serve(self, names: Collection[str]) -> None:
        self._names = tuple(sorted(names))

    def services(self) -> list[RpcService]:
        return [RpcService(name, {"ServerReflectionInfo": streaming_rpc(self._info)}) for name in SERVICES]

    async def _info(self, call: GrpcCall) -> None:
        await self._sessions.identify(call)
        while (raw := await call.receive()) is not None:
            request = parse_message(v1.ServerReflectionRequest, raw)
            await call.send(self._answer(request).SerializeToString())

    def _answer(self, request: v1.ServerReflectionRequest) -> v1.ServerReflectionResponse:
        answer = v1.ServerReflectionResponse(valid_host=request.host, original_request=request)
        kind = request.WhichOneof("message_request")
        if kind == "list_services":
            answer.list_services_response.service.extend(v1.ServiceResponse(name=name) for name in self._names)
            return answer
        try:
            self._fill(answer, request, kind)
        except KeyError:
            answer.error_response.error_code = _NOT_FOUND
            answer.error_response.error_message = "not found"
        return answer

    def _fill(self, answer: v1.ServerReflectionResponse, request: v1.ServerReflectionRequest, kind: str | None) -> None:
        pool = Default()
        if kind == "file_by_filename":
            _put_files(answer, pool.FindFileByName(request.file_by_filename))
        elif kind == "file_containing_symbol":
            _put_files(answer, pool.FindFileContainingSymbol(request.file_containing_symbol))
        elif kind == "file_containing_extension":
            extension = request.file_containing_extension
            owner = pool.FindMessageTypeByName(extension.containing_type)
            found = pool.FindExtensionByNumber(owner, extension.extension_number)
            _put_files(answer, pool.FindFileContainingSymbol(found.full_name))
        elif kind == "all_extension_numbers_of_type":
            owner = pool.FindMessageTypeByName(request.all_extension_numbers_of_type)
            numbers = answer.all_extension_numbers_response
            numbers.base_type_name = owner.full_name
            numbers.extension_number.extend(each.number for each in pool.FindAllExtensions(owner))
        else:
            answer.error_response.error_code = _UNIMPLEMENTED
            answer.error_response.error_message = "the request contains nothing that this server supports"


def _put_files(answer: v1.ServerReflectionResponse, first: FileDescriptor) -> None:
    """Add a file and all that it imports."""
    seen: dict[str, bytes] = {}
    waiting = [first]
    while waiting and len(seen) < FILES_MAX:
        file = waiting.pop(0)
        if file.name not in seen:
            seen[file.name] = file.serialized_pb
            waiting.extend(file.dependencies)
    answer.file_descriptor_response.file_descriptor_proto.extend(seen.values())

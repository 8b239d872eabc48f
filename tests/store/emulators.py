"""Small servers that speak as much of Google Cloud Storage (JSON) and Aliyun OSS as stores need.

Signatures are not checked. Objects are kept in memory, by bucket and name.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "tests"
_TIME = "2026-01-02T03:04:05.000Z"


class Objects(dict[str, bytes]):
    """The objects of the bucket; a page of a listing has `page` of them."""

    def __init__(self, page: int = 1000) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.page = page
        self.uploads: dict[str, dict[int, bytes]] = {}
        """The parts of uploads that are not complete, by the upload and the number of the part."""

    def create(self, name: str, content: bytes, *, must_be_new: bool) -> bool:
        with self.lock:
            if must_be_new and name in self:
                return False
            self[name] = content
            return True

    def listed(self, prefix: str, after: str) -> tuple[list[str], bool]:
        """Return the next names, and whether there are more."""
        names = sorted(name for name in self if name.startswith(prefix) and name > after)
        return names[: self.page], len(names) > self.page


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: Objects

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def reply(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def reply_content(self, content: bytes) -> None:
        """Answer with an object, or the range of it that is asked for."""
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            self.reply(200, content, Last_Modified=formatdate(usegmt=True))
            return
        first = int(wanted[1])
        if first >= len(content):
            self.reply(416)
            return
        last = min(int(wanted[2] or len(content)), len(content) - 1)
        self.reply(206, content[first : last + 1], Content_Range=f"bytes {first}-{last}/{len(content)}")

    def do_upload(self, name: str) -> bool:
        """Answer a request of an upload in parts, which OSS and Google share with S3; False if it is none."""
        query, uploads = self.query, self.objects.uploads
        if self.command == "POST" and "uploads" in query:
            key = f"upload-{len(uploads)}"
            uploads[key] = {}
            answer = f"<UploadId>{key}</UploadId>"
            self.reply(200, f"<InitiateMultipartUploadResult>{answer}</InitiateMultipartUploadResult>".encode())
        elif "uploadId" not in query:
            return False
        elif self.command == "PUT":
            uploads[query["uploadId"]][int(query["partNumber"])] = self.body()
            self.reply(200, ETag=f'"{query["partNumber"]}"')
        elif self.command == "POST":
            chosen = [int(number) for number in re.findall(r"<PartNumber>(\d+)</PartNumber>", self.body().decode())]
            parts = uploads[query["uploadId"]]
            self.objects.create(name, b"".join(parts[number] for number in chosen), must_be_new=False)
            self.reply(200, b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
        else:
            uploads[query["uploadId"]] = {}
            self.reply(204)
        return True

    @property
    def query(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(urlsplit(self.path).query, keep_blank_values=True).items()}

    @property
    def name(self) -> str:
        """The last part of the path, as an object's name."""
        return unquote(urlsplit(self.path).path.split(self.mark, 1)[1])

    mark = f"/{BUCKET}/"


class _OssHandler(_Handler):
    """Aliyun OSS: its own header for objects that must be new."""

    def do_POST(self) -> None:
        if not self.do_upload(self.name):
            self._refuse(501, "NotImplemented")

    def do_PUT(self) -> None:
        if self.do_upload(self.name):
            return
        must_be_new = self.headers.get("x-oss-forbid-overwrite") == "true"
        if self.objects.create(self.name, self.body(), must_be_new=must_be_new):
            self.reply(200, ETag='"x"')
        else:
            self._refuse(409, "FileAlreadyExists")

    def do_GET(self) -> None:
        if "list-type" in self.query:
            self._list()
        elif self.name in self.objects:
            self.reply_content(self.objects[self.name])
        else:
            self._refuse(404, "NoSuchKey")

    def do_HEAD(self) -> None:
        content = self.objects.get(self.name)
        if content is None:
            self.reply(404)
        else:
            self.reply(200, Content_Length=str(len(content)), Last_Modified=formatdate(usegmt=True))

    def do_DELETE(self) -> None:
        if self.do_upload(self.name):
            return
        self.objects.pop(self.name, None)
        self.reply(204)

    def _refuse(self, status: int, code: str) -> None:
        self.reply(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def _list(self) -> None:
        after = self.query.get("continuation-token") or self.query.get("start-after", "")
        names, has_more = self.objects.listed(self.query.get("prefix", ""), after)
        entries = "".join(
            f"<Contents><Key>{escape(name)}</Key><LastModified>{_TIME}</LastModified><ETag>x</ETag>"
            f"<Size>{len(self.objects[name])}</Size></Contents>"
            for name in names
        )
        token = f"<NextContinuationToken>{escape(names[-1])}</NextContinuationToken>" if has_more else ""
        flag = str(has_more).lower()
        self.reply(
            200, f"<ListBucketResult><IsTruncated>{flag}</IsTruncated>{token}{entries}</ListBucketResult>".encode()
        )


class _GcsHandler(_Handler):
    """Google Cloud Storage, the JSON dialect."""

    mark = f"/b/{BUCKET}/o/"
    mark_of_uploads = f"/{BUCKET}/"

    def do_POST(self) -> None:
        if self.do_upload(self.uploaded):
            return
        content = self.body()
        if urlsplit(self.path).path == "/token":
            self._json(200, {"access_token": "t", "token_type": "Bearer", "expires_in": 3600})
            return
        name = self.query.get("name", "")
        if self.query.get("uploadType") == "resumable":
            self.reply(200, Location=f"http://{self.headers['Host']}/session{self.path.partition('/o')[2]}")
            return
        if self.query.get("uploadType") == "multipart":
            boundary = self.headers["Content-Type"].partition("boundary=")[2].strip('"').encode()
            metadata, content = (part.partition(b"\r\n\r\n")[2][:-2] for part in content.split(b"--" + boundary)[1:3])
            name = name or json.loads(metadata)["name"]
        self._create(name, content)

    @property
    def uploaded(self) -> str:
        """The name in the path of an upload in parts, which is of the XML dialect."""
        return unquote(urlsplit(self.path).path.partition(self.mark_of_uploads)[2])

    def do_PUT(self) -> None:
        if not self.do_upload(self.uploaded):
            self._create(self.query["name"], self.body())

    def _create(self, name: str, content: bytes) -> None:
        if self.objects.create(name, content, must_be_new=self.query.get("ifGenerationMatch") == "0"):
            self._json(200, self._described(name))
        else:
            self._refuse(412, "conditionNotMet")

    def do_GET(self) -> None:
        if urlsplit(self.path).path.endswith("/o"):
            self._list()
        elif self.name not in self.objects:
            self._refuse(404, "notFound")
        elif self.query.get("alt") == "media":
            self.reply_content(self.objects[self.name])
        else:
            self._json(200, self._described(self.name))

    def do_DELETE(self) -> None:
        if self.do_upload(self.uploaded):
            return
        if self.objects.pop(self.name, None) is None:
            self._refuse(404, "notFound")
        else:
            self.reply(204)

    def _described(self, name: str) -> dict[str, str]:
        return {
            "name": name,
            "size": str(len(self.objects[name])),
            "etag": "x",
            "updated": _TIME,
            "generation": "1",
            "contentType": "application/octet-stream",
            "md5Hash": "",
        }

    def _list(self) -> None:
        after = self.query.get("pageToken", "")
        names, has_more = self.objects.listed(self.query.get("prefix", ""), after)
        found = [name for name in names if name >= self.query.get("startOffset", "")]
        answer: dict[str, object] = {"items": [self._described(name) for name in found], "prefixes": []}
        self._json(200, answer | ({"nextPageToken": names[-1]} if has_more else {}))

    def _json(self, status: int, value: object) -> None:
        self.reply(status, json.dumps(value).encode(), Content_Type="application/json")

    def _refuse(self, status: int, reason: str) -> None:
        errors = [{"domain": "global", "location": "", "locationType": "", "message": reason, "reason": reason}]
        self._json(status, {"error": {"code": status, "message": reason, "errors": errors}})


@contextmanager
def _serving(handler: type[_Handler]) -> Iterator[str]:
    bound = type(handler.__name__, (handler,), {"objects": Objects(page=3)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), bound)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def running_oss() -> AbstractContextManager[str]:
    """Run a server of OSS and give its address."""
    return _serving(_OssHandler)


def running_gcs() -> AbstractContextManager[str]:
    """Run a server of Google Cloud Storage and give its address."""
    return _serving(_GcsHandler)

from tests.servers.http.asgi_client import call
from tests.telemetry.collector import Collector, attributes, start_tracing
from tsdb.servers.http import HttpApp, Request, Response
from tsdb.units import Duration


async def hello(request: Request) -> Response:
    return Response.text("hello")


async def test_each_request_is_a_span_that_continues_the_trace_of_its_client() -> None:
    collector = Collector()
    tracing = start_tracing(collector.port)
    tracing.install()
    app = HttpApp(body_limit=0, timeout=Duration(0))
    app.add("/hello", hello)
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    await call(app, "GET", "/hello?q=1", headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"})
    await call(app, "GET", "/secret-path")
    app.add("/health", hello)
    await call(app, "GET", "/health")
    tracing.shutdown(seconds_max=60)
    collector.close()
    found, missing = collector.spans()
    assert (found.name, missing.name) == ("GET /hello", "GET other")
    assert found.trace_id.hex() == trace_id
    assert attributes(found) == {
        "protocol": "http",
        "http.request.method": "GET",
        "http.route": "/hello",
        "http.response.status_code": 200,
    }
    assert attributes(missing)["http.response.status_code"] == 404

"""A stock Triton client against /v2, unchanged. Skipped where ./dev test could not fetch the client.   ctest: timeout=120"""
import os
import sys

CLIENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/clients")

if os.path.exists(f"{CLIENTS}/installed") and os.path.realpath(sys.prefix) != os.path.realpath(CLIENTS):
    os.execv(f"{CLIENTS}/bin/python", [f"{CLIENTS}/bin/python", *sys.argv])

try:
    import numpy
    import tritonclient.http
except ImportError:
    print("tritonclient is not installed: nothing tested")
    sys.exit(77)  # CTest: skipped, not passed

from lib_http_cluster import check, main

V1 = "/api/v1"


def test_client(c):
    c.deploy("mlp")
    c.json("PUT", f"{V1}/endpoints/mlp", {"class": "mlp.Mlp", "arguments": [1], "max_batch_size": 64}, expect=201)
    client = tritonclient.http.InferenceServerClient(f"{c.host}:{c.port}")

    def key():  # the client writes its own headers into what it is given
        return {"Authorization": "Bearer " + c.token}

    check(client.is_server_live(key()) and client.is_server_ready(key()), "server")
    check(client.is_model_ready("mlp", headers=key()), "model")
    check(client.get_server_metadata(key())["name"] == "mobula", "metadata")
    metadata = client.get_model_metadata("mlp", headers=key())
    client.get_model_config("mlp", headers=key())
    client.get_inference_statistics("mlp", headers=key())
    check([one["name"] for one in client.get_inference_statistics(headers=key())["model_stats"]] == ["mlp"], "statistics of all")
    data = numpy.random.default_rng(1).random((3, 1024), dtype=numpy.float32)
    name, output = metadata["inputs"][0]["name"], metadata["outputs"][0]["name"]
    results = []
    for binary_in in (True, False):
        for outputs in (None, [(output, True)], [(output, False)]):
            tensor = tritonclient.http.InferInput(name, data.shape, "FP32")
            tensor.set_data_from_numpy(data, binary_data=binary_in)
            wanted = outputs and [tritonclient.http.InferRequestedOutput(n, binary_data=b) for n, b in outputs]
            answer = client.infer("mlp", [tensor], outputs=wanted, request_id="r1", headers=key())
            check(answer.get_response()["id"] == "r1", "id")
            results.append(answer.as_numpy(output))
    check(all(r.shape == (3, 16) and numpy.allclose(r, results[0], atol=1e-5) for r in results), "outputs", [r.shape for r in results])
    calls = [client.async_infer("mlp", [tensor], headers=key()) for _ in range(20)]
    check(all(numpy.allclose(call.get_result().as_numpy(output), results[0], atol=1e-5) for call in calls), "async")
    try:
        wrong = tritonclient.http.InferInput(name, [1, 5], "FP32")
        wrong.set_data_from_numpy(numpy.zeros((1, 5), dtype=numpy.float32))
        client.infer("mlp", [wrong], headers=key())
        check(False, "a wrong shape is refused")
    except tritonclient.http.InferenceServerException as error:
        check("shape" in str(error), "and says why", str(error))


if __name__ == "__main__":
    main({"test_client": test_client})

"""The test kit: strategies, a naive reader, the crash model, the fuzzer."""

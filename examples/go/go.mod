module prefill_decode

go 1.19

require flashattn v0.1.0

replace flashattn => ../../bindings/go

"""KV on its way from a prefill to a decode worker: one connection for each request, opened by decode.

    decode                                     prefill
    HELLO  {"room", "layout", "transfer"}  ->  the request is known here too, or comes within a while
    PAGES  {"tokens", ...}             ->      decode has pre-allocated: prefill may begin
                                       <-      FIRST {"token", "tokens", "bytes"} and then the KV, as the mover gives it
    OK                                 ->      prefill lets go of its pages

A line each, JSON. Whoever closes the connection gives up, so that a killed worker is noticed by its peer at once.
"""

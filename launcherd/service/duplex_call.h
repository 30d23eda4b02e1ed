// DuplexCall is one call of a gRPC callback service with a stream of requests and a stream of replies. It reads one
// request at a time: the next one only after the last one was handled. So a caller that sends fast costs no memory.
// Private to this folder.
//
// Owner: gRPC, as for StreamCall.
// Thread: any thread may call all functions.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "launcherd/service/stream_call.h"

namespace muster::launcherd::inline service {

template <typename Request, typename Answer>
class DuplexCall final : public StreamCall<Answer, grpc::ServerBidiReactor<Request, Answer>> {
 public:
  using Base = StreamCall<Answer, grpc::ServerBidiReactor<Request, Answer>>;
  // nullptr: no more requests come. The caller may have said so, or may be dead. Called on a gRPC thread. Call
  // read_next() once it is handled.
  using OnRequest = std::function<void(std::unique_ptr<Request>)>;

  // `gone` as for StreamCall.
  DuplexCall(std::function<void()> gone, OnRequest on_request)
      : Base(std::move(gone)), on_request_(std::move(on_request)) {}

  void read_next() {
    if (const auto lock = this->lock_if_open()) this->StartRead(&request_);
  }

  void OnReadDone(bool ok) override { on_request_(ok ? std::make_unique<Request>(std::move(request_)) : nullptr); }

 private:
  const OnRequest on_request_;
  Request request_;
};

}  // namespace muster::launcherd::service

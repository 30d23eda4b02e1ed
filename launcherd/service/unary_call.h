// UnaryCall is one call with one reply of a gRPC callback service. Private to this folder.
//
// Owner: gRPC owns the call until OnDone. `self_` holds that ownership. `reply` belongs to gRPC and is valid until the
// call has ended.
// Thread: any thread may call answer(). It does nothing after the end.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <utility>

#include "proto/text_fields.h"

namespace muster::launcherd::inline service {

template <typename Reply>
class UnaryCall final : public grpc::ServerUnaryReactor, public std::enable_shared_from_this<UnaryCall<Reply>> {
 public:
  explicit UnaryCall(Reply* reply) : reply_(reply) {}

  void begin() { self_ = this->shared_from_this(); }

  void answer(const grpc::Status& status, Reply reply) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(finished_, true)) return;
    proto::mend_text(reply);
    if (status.ok()) *reply_ = std::move(reply);
    Finish(status);
  }

  void OnCancel() override { answer(grpc::Status::CANCELLED, Reply()); }
  void OnDone() override { const auto last = std::move(self_); }

 private:
  Reply* const reply_;
  std::mutex mutex_;
  bool finished_ = false;
  std::shared_ptr<UnaryCall> self_;
};

}  // namespace muster::launcherd::service

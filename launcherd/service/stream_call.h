// StreamCall is one server-streaming call of a gRPC callback service. It queues replies, writes them one after the
// other, and ends with the status. duplex_call.h adds the requests of a stream both ways. Private to this folder.
//
// Owner: gRPC owns the call until OnDone. `self_` holds that ownership.
// Thread: any thread may call all functions. After the end they do nothing.
// Errors: if kMaxQueued replies wait for the caller to read, the call ends with RESOURCE_EXHAUSTED.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "proto/text_fields.h"

namespace muster::launcherd::inline service {

template <typename Answer, typename Reactor = grpc::ServerWriteReactor<Answer>>
class StreamCall : public Reactor, public std::enable_shared_from_this<StreamCall<Answer, Reactor>> {
 public:
  static constexpr std::size_t kMaxQueued = 250'000;

  // Calls `gone` once on a gRPC thread, when the caller has left or the call is over.
  explicit StreamCall(std::function<void()> gone) : gone_(std::move(gone)) {}

  void begin() { self_ = this->shared_from_this(); }

  void send(Answer answer) {
    proto::mend_text(answer);
    const std::lock_guard lock(mutex_);
    if (finished_ || last_) return;
    queue_.push_back(std::move(answer));
    if (queue_.size() == 1) this->StartWrite(&queue_.front());
    if (queue_.size() > kMaxQueued) {
      last_ = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                           "the client reads too slowly: ask again from where it stopped");
      queue_.resize(1);  // keep the reply that is being written
    }
  }

  // Calls `task` once everything sent so far is written: at once, or later on a gRPC thread. Never calls it after the
  // end.
  void when_written(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      if (finished_ || last_) return;
      if (!queue_.empty()) {
        on_written_ = std::move(task);
        return;
      }
    }
    task();
  }

  // Ends the call after all queued replies were written.
  void finish(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    if (finished_ || last_) return;
    last_ = status;
    finish_if_written();
  }

  // Holds the end of the call back while the result lives. Empty if the call has ended, or is about to.
  std::unique_ptr<std::lock_guard<std::mutex>> lock_if_open() {
    auto lock = std::make_unique<std::lock_guard<std::mutex>>(mutex_);
    return finished_ || last_ ? nullptr : std::move(lock);
  }

  void OnWriteDone(bool ok) override {
    const std::function<void()> on_written = written(ok);
    if (on_written) on_written();
  }

  void OnCancel() override { finish(grpc::Status::CANCELLED); }

  void OnDone() override {
    gone_();
    const auto last = std::move(self_);
  }

 private:
  // Returns the function to call after this write.
  std::function<void()> written(bool ok) {
    const std::lock_guard lock(mutex_);
    queue_.pop_front();
    if (!ok) {
      queue_.clear();
      last_ = grpc::Status::CANCELLED;
    }
    if (!queue_.empty()) {
      this->StartWrite(&queue_.front());
      return {};
    }
    finish_if_written();
    return last_ ? nullptr : std::exchange(on_written_, nullptr);
  }

  void finish_if_written() {
    if (!last_ || !queue_.empty() || finished_) return;
    finished_ = true;
    this->Finish(*last_);
  }

  const std::function<void()> gone_;
  std::mutex mutex_;
  std::deque<Answer> queue_;  // the front is being written
  std::optional<grpc::Status> last_;
  std::function<void()> on_written_;
  bool finished_ = false;
  std::shared_ptr<StreamCall> self_;
};

}  // namespace muster::launcherd::service

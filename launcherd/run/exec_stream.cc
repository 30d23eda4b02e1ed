#include "launcherd/run/exec_stream.h"

#include <utility>

#include "proto/input_window.h"

namespace muster::launcherd::inline run {

base::Result<std::shared_ptr<ExecStream>> ExecStream::create(const v1::ExecRequest& first, ExecCaller caller) {
  MUSTER_RETURN_IF_ERROR(check_first_request(first));
  return std::shared_ptr<ExecStream>(new ExecStream(first, std::move(caller)));
}

ExecControls ExecStream::controls() {
  return {.next = [self = shared_from_this()](const v1::ExecRequest& request) { self->next(request); },
          .gone = [self = shared_from_this()] { self->leave(); }};
}

base::Status ExecStream::begin(const Start& start) {
  if (phase_ != Phase::kWaiting) return base::ok_status();
  const std::weak_ptr<ExecStream> weak = weak_from_this();
  ExecCaller caller = caller_;
  caller.done = [weak, done = caller_.done](const base::Status& status) {
    if (const auto self = weak.lock()) self->phase_ = Phase::kOver;
    done(status);
  };
  MUSTER_ASSIGN_OR_RETURN(controls_, start(first_, std::move(caller)));
  phase_ = Phase::kRunning;
  for (const v1::ExecRequest& request : std::exchange(waiting_, {})) next(request);
  return base::ok_status();
}

void ExecStream::next(const v1::ExecRequest& request) {
  if (phase_ == Phase::kOver) return;
  if (const base::Status wrong = check_next_request(request); !wrong.ok()) return fail(wrong);
  if (phase_ == Phase::kRunning) return controls_->next(request);
  waiting_bytes_ += request.input().size();
  if (waiting_bytes_ + first_.input().size() > proto::kInputWindow || waiting_.size() >= kMostWaiting) {
    return fail(base::resource_exhausted("input: more than the command can take: wait for input_taken"));
  }
  waiting_.push_back(request);
}

void ExecStream::leave() {
  const bool is_running = phase_ == Phase::kRunning;
  phase_ = Phase::kOver;
  waiting_.clear();
  if (is_running) controls_->gone();
}

void ExecStream::fail(const base::Status& status) {
  if (phase_ == Phase::kOver) return;
  leave();
  caller_.done(status);
}

}  // namespace muster::launcherd::run

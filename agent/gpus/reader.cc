#include "agent/gpus/reader.h"

#include <utility>

namespace muster::agent::gpus {

Reader::Reader(base::Loop& loop, const base::Environment& login_environment, std::chrono::milliseconds patience)
    : loop_(loop), login_environment_(login_environment), patience_(patience) {}

void Reader::ask(Answer answer) {
  waiting_.push_back(std::move(answer));
  if (waiting_.size() > 1) return;
  idle_.cancel();
  const base::Status begun = begin();
  if (!begun.ok()) finish(begun);
}

base::Status Reader::begin() {
  if (timeouts_ >= kMostTimeouts) return base::error(base::Code::kDeadlineExceeded, "{}", no_answer(patience_));
  if (!helper_) {
    MUSTER_ASSIGN_OR_RETURN(Helper started, Helper::start(login_environment_));
    helper_.emplace(std::move(started));
  }
  MUSTER_RETURN_IF_ERROR(helper_->ask());
  watch_ = loop_.on_readable(helper_->fd(), [this] { readable(); });
  deadline_ = loop_.after(patience_, [this] { timed_out(); });
  return base::ok_status();
}

void Reader::readable() {
  auto report = helper_->receive();
  if (!report.ok()) return finish(report.status());
  if (*report) finish(**std::move(report));
}

void Reader::timed_out() {
  ++timeouts_;
  finish(base::error(base::Code::kDeadlineExceeded, "{}", no_answer(patience_)));
}

void Reader::finish(base::Result<GpuReport> report) {
  watch_.cancel();
  deadline_.cancel();
  if (report.ok()) timeouts_ = 0;
  if (!report.ok()) helper_.reset();
  result_ = std::move(report);
  delivery_ = loop_.after(base::Duration::zero(), [this] { deliver(); });
}

// Who is answered may ask again, or destroy this.
void Reader::deliver() {
  const base::Result<GpuReport> result = *std::exchange(result_, std::nullopt);
  const std::vector<Answer> answered = std::exchange(waiting_, {});
  idle_ = loop_.after(kIdlePatience, [this] { helper_.reset(); });
  for (const Answer& each : answered) each(result);
}

}  // namespace muster::agent::gpus

#include "agent/gpus/reader.h"

#include <utility>

namespace muster::agent::inline gpus {

Reader::Reader(base::Loop& loop, const base::Environment& login_environment, KilledHelpers& killed,
               std::chrono::milliseconds patience, Question question, std::chrono::milliseconds retry_pause)
    : loop_(loop),
      login_environment_(login_environment),
      killed_(killed),
      patience_(patience),
      question_(std::move(question)),
      retry_pause_(retry_pause) {}

void Reader::ask(Answer answer) {
  waiting_.push_back(std::move(answer));
  if (waiting_.size() > 1) return;
  idle_.cancel();
  if (is_too_early()) {
    return finish(base::deadline_exceeded("{}", no_answer(question_, patience_)));
  }
  deadline_ = loop_.after(patience_, [this] { timed_out(); });
  may_try_again_ = helper_.has_value();
  try_once();
}

bool Reader::is_too_early() {
  if (timeouts_ < kMostTimeouts) return false;
  return std::chrono::steady_clock::now() < retry_at_ || !killed_.are_all_gone();
}

void Reader::try_once() {
  const base::Status begun = begin();
  if (!begun.ok()) failed(begun);
}

base::Status Reader::begin() {
  if (!helper_) {
    MUSTER_ASSIGN_OR_RETURN(Helper started, Helper::start(login_environment_));
    helper_.emplace(std::move(started));
  }
  MUSTER_RETURN_IF_ERROR(helper_->ask(question_));
  watch_ = loop_.on_readable(helper_->fd(), [this] { readable(); });
  return base::ok_status();
}

void Reader::readable() {
  auto report = helper_->receive();
  if (!report.ok()) return failed(report.status());
  if (*report) finish(**std::move(report));
}

// Another process may have ended the helper since its last answer. Such an end does not concern the GPUs, so try once
// more.
void Reader::failed(const base::Status& why) {
  if (why.code() != base::Code::kUnavailable || !std::exchange(may_try_again_, false)) return finish(why);
  watch_.cancel();
  give_up_helper();
  try_once();
}

void Reader::timed_out() {
  ++timeouts_;
  retry_at_ = std::chrono::steady_clock::now() + retry_pause_;
  finish(base::deadline_exceeded("{}", no_answer(question_, patience_)));
}

void Reader::give_up_helper() {
  if (helper_) killed_.take(helper_->kill_unreaped());
  helper_.reset();
}

void Reader::finish(base::Result<GpuReport> report) {
  watch_.cancel();
  deadline_.cancel();
  if (report.ok()) timeouts_ = 0;
  // A library that fails may be replaced, together with its driver. A process that has loaded it keeps the old file,
  // so start a new one.
  const bool is_of_no_use = !report.ok() || (question_.nvidia && report->driver.empty());
  if (is_of_no_use) give_up_helper();
  result_ = std::move(report);
  delivery_ = loop_.after(base::Duration::zero(), [this] { deliver(); });
}

// Empties result_ and waiting_ first, because a callback may ask again, or destroy this object.
void Reader::deliver() {
  const base::Result<GpuReport> result = *std::exchange(result_, std::nullopt);
  const std::vector<Answer> answered = std::exchange(waiting_, {});
  idle_ = loop_.after(kIdlePatience, [this] { give_up_helper(); });
  for (const Answer& each : answered) each(result);
}

}  // namespace muster::agent::gpus

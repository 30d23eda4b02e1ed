#include "launcherd/daemon/held_submissions.h"

#include <utility>

#include "launcherd/placement/job_need.h"
#include "proto/job_spec_convert.h"

namespace muster::launcherd {

bool HeldSubmissions::must_wait(const v1::SubmitRequest& request) const {
  if (hosts_->count_awaited() == 0) return false;
  const auto submission = proto::submission_of(request);
  return submission.ok() && depends_on_counts(submission->job, hosts_->slots());
}

void HeldSubmissions::take(const v1::SubmitRequest& request, Reply<v1::SubmitResponse> reply) {
  if (!must_wait(request)) return admit_(request, std::move(reply));
  held_.push_back({request, std::move(reply)});
  if (!limit_.armed()) limit_ = loop_.after(patience_, [this] { admit_all(); });
}

void HeldSubmissions::look_again() {
  std::vector<Held> held = std::exchange(held_, {});
  for (Held& each : held) {
    if (must_wait(each.request)) {
      held_.push_back(std::move(each));
    } else {
      admit_(each.request, std::move(each.reply));
    }
  }
  if (held_.empty()) limit_.cancel();
}

void HeldSubmissions::admit_all() {
  limit_.cancel();
  for (Held& each : std::exchange(held_, {})) admit_(each.request, std::move(each.reply));
}

void HeldSubmissions::refuse_all(const base::Status& why) {
  limit_.cancel();
  for (Held& each : std::exchange(held_, {})) each.reply(why);
}

}  // namespace muster::launcherd

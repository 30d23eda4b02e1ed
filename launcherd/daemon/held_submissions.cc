#include "launcherd/daemon/held_submissions.h"

#include <utility>
#include <vector>

#include "launcherd/queue/job_need.h"
#include "proto/job_spec_convert.h"

namespace muster::launcherd::inline daemon {

bool HeldSubmissions::must_wait(const v1::SubmitRequest& request) const {
  if (hosts_->count_awaited() == 0) return false;
  const auto submission = proto::submission_of(request);
  return submission.ok() && depends_on_counts(submission->job, hosts_->slots());
}

void HeldSubmissions::add(const v1::SubmitRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply) {
  if (!must_wait(request)) return admit_(request, user, std::move(reply));
  const std::uint64_t number = next_number_++;
  held_.emplace(number,
                Held{request, user, std::move(reply), loop_.after(patience_, [this, number] { admit(number); })});
}

void HeldSubmissions::recheck() {
  std::vector<std::uint64_t> ready;
  for (const auto& [number, each] : held_) {
    if (!must_wait(each.request)) ready.push_back(number);
  }
  for (const std::uint64_t number : ready) admit(number);
}

void HeldSubmissions::admit(std::uint64_t number) {
  auto held = held_.extract(number);
  if (!held.empty()) admit_(held.mapped().request, held.mapped().user, std::move(held.mapped().reply));
}

void HeldSubmissions::refuse_all(const base::Status& why) {
  for (auto& [number, each] : std::exchange(held_, {})) each.reply(why);
}

}  // namespace muster::launcherd::daemon

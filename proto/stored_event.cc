#include "proto/stored_event.h"

#include <limits>
#include <utility>

#include "base/shortened.h"
#include "proto/event_json.h"

namespace muster::proto {
namespace {

// Accepts the years 1 to 9999, because RFC 3339 and so JSON cannot express others.
bool is_valid(const google::protobuf::Timestamp& time) {
  return time.seconds() >= -62'135'596'800 && time.seconds() <= 253'402'300'799 && time.nanos() >= 0 &&
         time.nanos() <= 999'999'999;
}

void shorten(std::string* text, std::size_t most) {
  if (text->size() > most) *text = base::shortened(*text, most);
}

void shorten_texts(v1::Event& event) {
  switch (event.body_case()) {
    case v1::Event::kHostUp:
      shorten(event.mutable_host_up()->mutable_containment(), kLongestReason);
      break;
    case v1::Event::kRankEnded:
      shorten(event.mutable_rank_ended()->mutable_detail(), kLongestDetail);
      break;
    case v1::Event::kJobStopping:
      shorten(event.mutable_job_stopping()->mutable_reason(), kLongestReason);
      break;
    case v1::Event::kJobRestarting:
      shorten(event.mutable_job_restarting()->mutable_reason(), kLongestReason);
      break;
    case v1::Event::kGenerationBegan:
      shorten(event.mutable_generation_began()->mutable_reason(), kLongestReason);
      break;
    case v1::Event::kHangReported:
      shorten(event.mutable_hang_reported()->mutable_cause(), kLongestReason);
      break;
    case v1::Event::kJobStateChanged:
      shorten(event.mutable_job_state_changed()->mutable_reason(), kLongestReason);
      break;
    case v1::Event::kJobEnded:
      for (v1::RankEnd& end : *event.mutable_job_ended()->mutable_ends()) {
        shorten(end.mutable_detail(), kLongestDetail);
      }
      break;
    default:
      break;
  }
}

// Keeps only the end of the root cause. Readers find the other ends in earlier events and by GetJob.
void keep_root_cause(v1::ExitReport& report) {
  v1::RankEnd root;
  bool has_root = false;
  for (v1::RankEnd& end : *report.mutable_ends()) {
    if (end.rank() != report.root_cause_rank()) continue;
    root = std::move(end);
    has_root = true;
    break;
  }
  report.clear_ends();
  if (has_root) *report.add_ends() = std::move(root);
}

// Drops long parts until the report fits, the least important first.
void fit(v1::ExitReport& report) {
  if (report.ByteSizeLong() > kLongestEnd) keep_root_cause(report);
  if (report.ByteSizeLong() > kLongestEnd) report.clear_alike_ranks();
  if (report.ByteSizeLong() > kLongestEnd) report.clear_stderr_tail();
  if (report.ByteSizeLong() > kLongestEnd) report.clear_unclean_hosts();
}

}  // namespace

std::string stored_event(const model::JobEvent& event, base::WallTime time) {
  v1::Event message = make_event(event, 0, time);
  shorten_texts(message);
  if (message.has_job_ended()) fit(*message.mutable_job_ended());
  return message.SerializeAsString();
}

base::Result<v1::Event> event_of_store(std::string_view bytes, std::uint64_t sequence) {
  v1::Event message;
  const bool is_short = bytes.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (!is_short || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !is_valid(message.time())) {
    return base::data_loss("event {} of the job store is corrupt: restore a copy of the store, or forget the job",
                           sequence);
  }
  message.set_sequence(sequence);
  return message;
}

}  // namespace muster::proto

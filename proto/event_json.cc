#include "proto/event_json.h"

#include <chrono>

#include "base/strings.h"
#include "proto/convert.h"
#include "proto/hang_convert.h"
#include "proto/message_json.h"

namespace muster::proto {
namespace {

// protobuf must not get a string that is not UTF-8.
void set_text(const std::string& from, std::string* to) {
  *to = base::valid_utf8(from);
}

v1::RankEnd clean(const model::RankEnd& end) {
  v1::RankEnd result = to_proto(end);
  set_text(end.host, result.mutable_host());
  set_text(end.detail, result.mutable_detail());
  return result;
}

// One overload for each kind of event.
struct Writer {
  v1::Event& event;

  void operator()(const model::JobStarting& starting) const {
    event.mutable_job_starting()->set_job_id(starting.job_id);
    *event.mutable_job_starting()->mutable_placement() = to_proto(starting.placement);
  }
  void operator()(const model::HostUp& up) const {
    set_text(up.host, event.mutable_host_up()->mutable_host());
    set_text(up.link, event.mutable_host_up()->mutable_link());
    set_text(up.containment, event.mutable_host_up()->mutable_containment());
  }
  void operator()(const model::RankUp& up) const {
    event.mutable_rank_up()->set_rank(up.rank);
    event.mutable_rank_up()->set_pid(up.pid);
  }
  void operator()(const model::RankEnd& end) const { *event.mutable_rank_ended() = clean(end); }
  void operator()(const model::HostSuspect& suspect) const {
    set_text(suspect.host, event.mutable_host_suspect()->mutable_host());
    event.mutable_host_suspect()->set_suspect(suspect.suspect);
  }
  void operator()(const model::HostsLeftOut& left_out) const {
    v1::HostsLeftOut& to = *event.mutable_hosts_left_out();
    for (const std::string& host : left_out.hosts) set_text(host, to.add_hosts());
    for (const std::string& reason : left_out.reasons) set_text(reason, to.add_reasons());
  }
  void operator()(const model::JobStopping& stopping) const {
    set_text(stopping.reason, event.mutable_job_stopping()->mutable_reason());
  }
  void operator()(const model::JobRestarting& restarting) const {
    event.mutable_job_restarting()->set_attempt(restarting.attempt);
    event.mutable_job_restarting()->set_rank(restarting.rank);
    set_text(restarting.reason, event.mutable_job_restarting()->mutable_reason());
  }
  void operator()(const model::GenerationBegan& began) const {
    v1::GenerationBegan& to = *event.mutable_generation_began();
    to.set_number(began.number);
    to.set_from(began.from);
    to.set_to(began.to);
    for (const std::string& host : began.added) set_text(host, to.add_added());
    for (const std::string& host : began.lost) set_text(host, to.add_lost());
    set_text(began.reason, to.mutable_reason());
    to.set_elapsed_ms(began.elapsed.count());
    *to.mutable_placement() = to_proto(began.placement);
    to.mutable_former()->Add(began.former.begin(), began.former.end());
  }
  void operator()(const model::FirstCollectiveEnded& ended) const {
    event.mutable_first_collective_ended()->set_generation(ended.generation);
    event.mutable_first_collective_ended()->set_elapsed_ms(ended.elapsed.count());
  }
  void operator()(const model::HangReported& hang) const { *event.mutable_hang_reported() = to_proto(hang.report); }
  void operator()(const model::WrongWorld& wrong) const {
    v1::WrongWorld& to = *event.mutable_wrong_world();
    to.set_size(wrong.size);
    for (const model::FormedWorld& formed : wrong.formed) {
      v1::FormedWorld& group = *to.add_formed();
      group.set_size(formed.size);
      group.mutable_ranks()->Add(formed.ranks.begin(), formed.ranks.end());
      set_text(formed.source, group.mutable_source());
    }
    set_text(wrong.reason, to.mutable_reason());
  }
  void operator()(const model::LateHost& late) const {
    v1::LateHost& to = *event.mutable_late_host();
    set_text(late.host, to.mutable_host());
    to.set_late(late.late);
    to.set_operations(late.operations);
    to.set_median_us(late.median.count());
  }
  void operator()(const model::ElementChanged& changed) const {
    v1::ElementChanged& to = *event.mutable_element_changed();
    to.set_index(changed.index);
    to.set_state(static_cast<v1::JobState>(changed.state));
    if (changed.exit_code) to.set_exit_code(*changed.exit_code);
  }
  void operator()(const model::NotifyFailed& failed) const {
    set_text(failed.reason, event.mutable_notify_failed()->mutable_reason());
  }
  void operator()(const model::JobStateChanged& changed) const {
    // model/job_state.h uses the same numbers on purpose.
    event.mutable_job_state_changed()->set_state(static_cast<v1::JobState>(changed.state));
    set_text(changed.reason, event.mutable_job_state_changed()->mutable_reason());
  }
  void operator()(const model::JobEnded& ended) const {
    v1::ExitReport& report = *event.mutable_job_ended();
    report.set_job_id(ended.job_id);
    report.set_exit_code(ended.exit_code);
    report.set_root_cause_rank(ended.root_cause_rank);
    for (const model::RankEnd& end : ended.ends) *report.add_ends() = clean(end);
    for (const std::string& line : ended.stderr_tail) set_text(line, report.add_stderr_tail());
    report.set_strays_killed(ended.strays_killed);
    for (const std::string& host : ended.unclean_hosts) set_text(host, report.add_unclean_hosts());
    report.mutable_alike_ranks()->Add(ended.alike_ranks.begin(), ended.alike_ranks.end());
    if (ended.is_retryable) report.set_retryable(*ended.is_retryable);
  }
};

}  // namespace

v1::Event make_event(const model::JobEvent& event, std::uint64_t sequence, base::WallTime time) {
  v1::Event message;
  message.set_sequence(sequence);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  message.mutable_time()->set_seconds(micros / 1'000'000);
  message.mutable_time()->set_nanos(static_cast<int>(micros % 1'000'000 * 1'000));
  std::visit(Writer{message}, event);
  return message;
}

std::string event_line(const model::JobEvent& event, std::uint64_t sequence, base::WallTime time) {
  return message_line(make_event(event, sequence, time));
}

}  // namespace muster::proto

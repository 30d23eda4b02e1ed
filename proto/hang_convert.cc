#include "proto/hang_convert.h"

#include <algorithm>
#include <string>

#include "base/shortened.h"
#include "base/strings.h"

namespace muster::proto {
namespace {

constexpr std::size_t kMostCalls = 32;
constexpr std::size_t kLongestText = 1024;  // bytes of a name, a path or a line

void set_text(const std::string& from, std::string* to) {
  *to = base::valid_utf8(from);
  if (to->size() > kLongestText) *to = base::shortened(*to, kLongestText);
}

v1::CollectivePlace to_proto(const model::CollectivePlace& place) {
  v1::CollectivePlace message;
  message.set_size(place.size);
  message.set_begun(place.begun);
  message.set_ended(place.ended);
  set_text(place.operation, message.mutable_operation());
  set_text(place.name, message.mutable_name());
  message.set_since_ms(place.since_ms);
  message.set_beats(place.beats);
  return message;
}

model::CollectivePlace place_of(const v1::CollectivePlace& message) {
  return {.size = message.size(),
          .begun = message.begun(),
          .ended = message.ended(),
          .operation = message.operation(),
          .name = message.name(),
          .since_ms = message.since_ms(),
          .beats = message.beats()};
}

v1::TorchCollective to_proto(const model::TorchCollective& torch) {
  v1::TorchCollective message;
  set_text(torch.group, message.mutable_group());
  message.set_sequence(torch.sequence);
  set_text(torch.operation, message.mutable_operation());
  set_text(torch.state, message.mutable_state());
  return message;
}

model::TorchCollective torch_of(const v1::TorchCollective& message) {
  return {.group = message.group(),
          .sequence = message.sequence(),
          .operation = message.operation(),
          .state = message.state()};
}

}  // namespace

v1::RankEvidence to_proto(const model::RankEvidence& evidence) {
  v1::RankEvidence message;
  message.set_rank(evidence.rank);
  set_text(evidence.host, message.mutable_host());
  message.set_pid(evidence.pid);
  message.set_moving(evidence.moving);
  set_text(evidence.state, message.mutable_state());
  if (evidence.state_ms) message.set_state_ms(*evidence.state_ms);
  set_text(evidence.wait_channel, message.mutable_wait_channel());
  for (std::size_t i = 0; i < std::min(evidence.python.size(), kMostCalls); ++i) {
    v1::PythonFrame& frame = *message.add_python();
    set_text(evidence.python[i].function, frame.mutable_function());
    set_text(evidence.python[i].file, frame.mutable_file());
    frame.set_line(evidence.python[i].line);
  }
  set_text(evidence.native, message.mutable_native());
  message.set_cpu_ms(evidence.cpu_ms);
  message.set_looked_ms(evidence.looked_ms);
  if (evidence.collective) *message.mutable_collective() = to_proto(*evidence.collective);
  set_text(evidence.awaits, message.mutable_awaits());
  if (evidence.awaits_ms) message.set_awaits_ms(*evidence.awaits_ms);
  set_text(evidence.last_line, message.mutable_last_line());
  if (evidence.silent_ms) message.set_silent_ms(*evidence.silent_ms);
  set_text(evidence.problem, message.mutable_problem());
  message.set_fully_stopped(evidence.fully_stopped);
  if (evidence.torch) *message.mutable_torch() = to_proto(*evidence.torch);
  set_text(evidence.python_source, message.mutable_python_source());
  return message;
}

model::RankEvidence evidence_of(const v1::RankEvidence& message) {
  model::RankEvidence evidence;
  evidence.rank = message.rank();
  evidence.host = message.host();
  evidence.pid = message.pid();
  evidence.moving = message.moving();
  evidence.state = message.state();
  if (message.has_state_ms()) evidence.state_ms = std::max<std::int64_t>(message.state_ms(), 0);
  // The kernel's "0" means that the thread does not wait, or that the function is hidden.
  if (message.wait_channel() != "0") evidence.wait_channel = message.wait_channel();
  for (const v1::PythonFrame& frame : message.python()) {
    if (evidence.python.size() == kMostCalls) break;
    evidence.python.push_back({.function = frame.function(), .file = frame.file(), .line = frame.line()});
  }
  evidence.native = message.native();
  evidence.cpu_ms = std::max<std::int64_t>(message.cpu_ms(), 0);
  evidence.looked_ms = std::max<std::int64_t>(message.looked_ms(), 0);
  if (message.has_collective()) evidence.collective = place_of(message.collective());
  evidence.awaits = message.awaits();
  if (message.has_awaits_ms()) evidence.awaits_ms = std::max<std::int64_t>(message.awaits_ms(), 0);
  evidence.last_line = message.last_line();
  if (message.has_silent_ms()) evidence.silent_ms = std::max<std::int64_t>(message.silent_ms(), 0);
  evidence.problem = message.problem();
  evidence.fully_stopped = message.fully_stopped();
  if (message.has_torch()) evidence.torch = torch_of(message.torch());
  evidence.python_source = message.python_source();
  return evidence;
}

v1::NcclFinding to_proto(const model::NcclFinding& finding) {
  v1::NcclFinding message;
  set_text(finding.text, message.mutable_text());
  message.mutable_ranks()->Add(finding.ranks.begin(), finding.ranks.end());
  return message;
}

model::NcclFinding nccl_finding_of(const v1::NcclFinding& message) {
  return {.text = message.text(), .ranks = {message.ranks().begin(), message.ranks().end()}};
}

v1::HangReport to_proto(const model::HangReport& report) {
  v1::HangReport message;
  message.set_silent_ms(report.silent_ms);
  message.set_generation(report.generation);
  message.set_size(report.size);
  message.set_answered(report.answered);
  message.set_looked_ms(report.looked_ms);
  set_text(report.cause, message.mutable_cause());
  for (const model::HangClass& place : report.classes) {
    v1::HangClass& to = *message.add_classes();
    to.set_suspect(place.suspect);
    to.mutable_ranks()->Add(place.ranks.begin(), place.ranks.end());
    *to.mutable_example() = to_proto(place.example);
  }
  for (const std::string& host : report.silent_hosts) set_text(host, message.add_silent_hosts());
  for (const model::NcclFinding& finding : report.nccl) *message.add_nccl() = to_proto(finding);
  return message;
}

model::HangReport hang_report_of(const v1::HangReport& message) {
  model::HangReport report{.silent_ms = message.silent_ms(),
                           .generation = message.generation(),
                           .size = message.size(),
                           .answered = message.answered(),
                           .looked_ms = message.looked_ms(),
                           .cause = message.cause()};
  for (const v1::HangClass& place : message.classes()) {
    report.classes.push_back({.suspect = place.suspect(),
                              .ranks = {place.ranks().begin(), place.ranks().end()},
                              .example = evidence_of(place.example())});
  }
  report.silent_hosts.assign(message.silent_hosts().begin(), message.silent_hosts().end());
  for (const v1::NcclFinding& finding : message.nccl()) report.nccl.push_back(nccl_finding_of(finding));
  return report;
}

}  // namespace muster::proto

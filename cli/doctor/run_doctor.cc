#include "cli/doctor/run_doctor.h"

#include <algorithm>
#include <cstdio>
#include <system_error>

#include "base/build_id.h"
#include "base/print.h"
#include "base/thread.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_report.h"
#include "cli/doctor/probe_hosts.h"
#include "cli/hosts/job_hosts.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/exit_codes.h"
#include "launcherd/doctor/judge.h"
#include "proto/diagnosis_json.h"

namespace muster::cli::inline doctor {
namespace {

constexpr int kFailures = 1;

int examine(ParsedDoctor parsed, const base::Environment& environment) {
  HvdrunOptions& options = parsed.options;
  const auto note = choose_hosts(options, environment, logical_working_directory(environment));
  if (!note.ok()) return fail_as("muster doctor", kUsageError, note.status().message());
  if (options.launch.verbose && !note->empty()) base::print_remark("muster doctor: {}\n", *note);
  const auto hosts = distinct_hosts(options.job.placement.hosts);
  const auto findings = probe_hosts(options, hosts, environment, {.program = "muster doctor"});
  if (!findings.ok()) return fail_as("muster doctor", kMusterFailed, findings.status().message());
  const auto diagnoses = launcherd::judge_hosts(*findings, options.launch.agent_link);
  std::string text;
  if (parsed.json) {
    for (const model::HostDiagnosis& diagnosis : diagnoses) text += proto::diagnosis_line(diagnosis);
  } else {
    text = format_diagnoses(diagnoses);
  }
  if (const int failed = print_answer("muster doctor", text); failed != 0) return failed;
  if (launcherd::is_nothing_known(*findings)) return kMusterFailed;
  const bool has_failures = std::ranges::any_of(
      diagnoses, [](const model::HostDiagnosis& each) { return each.state() == model::CheckState::kFail; });
  return has_failures ? kFailures : 0;
}

}  // namespace

int run_doctor(const std::vector<std::string>& arguments) {
  try {
    const base::Environment environment = base::Environment::current();
    ParsedDoctor parsed = parse_doctor(arguments, environment, {.build_id = base::build_id()});
    if (!parsed.exit_code) return examine(std::move(parsed), environment);
    if (*parsed.exit_code == 0) return print_answer("muster doctor", parsed.text);
    (void)base::print_text(stderr, parsed.text);
    return *parsed.exit_code;
  } catch (const std::system_error& failure) {  // a constructor on this thread failed to start a thread
    return fail_as("muster doctor", kMusterFailed, base::thread_failure(failure));
  }
}

}  // namespace muster::cli::doctor

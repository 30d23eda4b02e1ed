#include "cli/doctor/run_doctor.h"

#include <algorithm>

#include "base/build_id.h"
#include "base/print.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_report.h"
#include "cli/doctor/probe_hosts.h"
#include "cli/hosts/console.h"
#include "cli/hosts/job_hosts.h"
#include "cli/hosts/program_main.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/color_option.h"
#include "cli/options/exit_codes.h"
#include "launcherd/doctor/judge.h"
#include "proto/diagnosis_json.h"

namespace muster::cli::inline doctor {
namespace {

constexpr int kFailures = 1;

int examine(ParsedDoctor parsed, const base::Environment& environment, const Console& console) {
  HvdrunOptions& options = parsed.options;
  const bool verbose = options.output.verbose;
  const auto source = find_hosts(options.request, environment, logical_working_directory(environment));
  if (!source.ok()) return console.fail("muster doctor", kUsageError, source.status().message());
  if (verbose && !source->note.empty()) base::print_remark("muster doctor: {}\n", source->note);
  const auto hosts = distinct_hosts(options.request.job.placement.hosts);
  const auto findings = probe_hosts(options.request.job, options.reach, hosts, environment,
                                    {.program = "muster doctor", .verbose = verbose});
  if (!findings.ok()) return console.fail("muster doctor", kMusterFailed, findings.status().message());
  const auto diagnoses = launcherd::judge_hosts(*findings, options.reach.agent_link);
  std::string text;
  if (parsed.json) {
    for (const model::HostDiagnosis& diagnosis : diagnoses) text += proto::diagnosis_line(diagnosis);
  } else {
    text = format_diagnoses(diagnoses);
  }
  if (const int failed = print_answer("muster doctor", text); failed != 0) return failed;
  if (launcherd::no_host_answered(*findings)) return kMusterFailed;
  const bool has_failures = std::ranges::any_of(
      diagnoses, [](const model::HostDiagnosis& each) { return each.state() == model::CheckState::kFail; });
  return has_failures ? kFailures : 0;
}

}  // namespace

int run_doctor(const std::vector<std::string>& arguments) {
  return run_program("muster doctor", [&](const base::Environment& environment) {
    const Console console(typed_color(arguments, doctor_flags()), environment);
    const ParseContext context{.build_id = base::build_id(), .look = console.look()};
    ParsedDoctor parsed = parse_doctor(arguments, environment, context);
    if (parsed.exit_code) return console.reply("muster doctor", {*parsed.exit_code, parsed.text, parsed.is_help});
    return examine(std::move(parsed), environment, console);
  });
}

}  // namespace muster::cli::doctor

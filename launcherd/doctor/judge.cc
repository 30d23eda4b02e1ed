#include "launcherd/doctor/judge.h"

#include <algorithm>

#include "base/strings.h"
#include "launcherd/doctor/checks.h"
#include "launcherd/doctor/compare.h"
#include "launcherd/plan/launch_plan.h"

namespace muster::launcherd::inline doctor {
namespace {

using model::Check;
using model::CheckState;

constexpr std::size_t kMostText = 400;  // bytes of a cell

// Cleans the text of a cell, which may come from a host. The result is one line without control sequences, of at most
// kMostText bytes plus "...".
std::string cell(const std::string& text) {
  std::string clean = base::printable(base::valid_utf8(text.substr(0, kMostText)));
  if (text.size() > kMostText) clean += "...";
  return clean;
}

void clean(std::vector<Check>& checks) {
  for (Check& check : checks) {
    for (std::string* field : {&check.name, &check.seen, &check.advice}) *field = cell(*field);
  }
}

void add_facts(const HostFindings& findings, const std::string& agent_link, std::vector<Check>& checks) {
  const v1::HostFacts& facts = *findings.facts;
  checks.push_back(check_back_connection(facts, agent_link));
  checks.push_back(check_link(facts, agent_link, findings.is_local));
  if (findings.peer) checks.push_back(check_peer(*findings.peer));
  if (findings.clock) checks.push_back(check_clock(*findings.clock));
  for (const v1::LimitFact& limit : facts.limits()) checks.push_back(check_limit(limit, locks_memory(facts)));
  checks.push_back(check_threads(facts));
  for (const v1::SpaceFact& space : facts.spaces()) checks.push_back(check_space(space));
  checks.push_back(check_kernel(facts.hello().kernel()));
  checks.push_back(check_containment(facts));
  checks.push_back(check_logind(facts.logind(), findings.host.user));
  checks.push_back(check_cores(facts.hello()));
  checks.push_back(check_gpus(facts));
  if (reports_gpu_users(facts.hello())) checks.push_back(check_gpu_memory(facts));
  checks.push_back(check_nics(facts));
  checks.push_back(check_python(facts));
  checks.push_back(check_torch(facts));
}

// Marks names that mean the same host, because a job merges their ranks.
void mark_same_hosts(const std::vector<HostFindings>& findings, std::vector<model::HostDiagnosis>& diagnoses) {
  std::vector<std::size_t> answering;
  std::vector<HostFacts> facts;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    if (!findings[i].facts) continue;
    answering.push_back(i);
    facts.emplace_back().hello = findings[i].facts->hello();
  }
  const std::vector<int> first_of = find_same_hosts(facts);
  for (std::size_t k = 0; k < answering.size(); ++k) {
    const std::size_t first = answering[static_cast<std::size_t>(first_of[k])];
    if (first == answering[k]) continue;
    diagnoses[answering[k]].checks.front().seen += fmt::format(", the same host as {}", diagnoses[first].host);
  }
}

// Adds the difference to each host's diagnosis, with that host's value.
void add_difference(const Difference& difference, std::vector<model::HostDiagnosis>& diagnoses) {
  for (const auto& [value, hosts] : difference.values) {
    for (const std::size_t host : hosts) {
      diagnoses[host].differences.push_back({difference.name, CheckState::kWarn, value, difference.advice});
    }
  }
}

}  // namespace

model::HostDiagnosis judge_host(const HostFindings& findings, const std::string& agent_link) {
  model::HostDiagnosis diagnosis;
  diagnosis.host = model::display_name(findings.host);
  diagnosis.checks.push_back(check_name(findings));
  const bool has_name = diagnosis.checks.front().state != CheckState::kFail;
  if (has_name) diagnosis.checks.push_back(check_ssh(findings));
  if (findings.facts) add_facts(findings, agent_link, diagnosis.checks);
  clean(diagnosis.checks);
  return diagnosis;
}

std::vector<model::HostDiagnosis> judge_hosts(const std::vector<HostFindings>& findings,
                                              const std::string& agent_link) {
  std::vector<model::HostDiagnosis> diagnoses;
  for (const HostFindings& each : findings) diagnoses.push_back(judge_host(each, agent_link));
  mark_same_hosts(findings, diagnoses);
  for (const Difference& difference : compare_hosts(findings)) add_difference(difference, diagnoses);
  for (model::HostDiagnosis& diagnosis : diagnoses) clean(diagnosis.differences);
  return diagnoses;
}

bool no_host_answered(const std::vector<HostFindings>& findings) {
  return std::ranges::none_of(findings, [](const HostFindings& each) { return each.facts.has_value(); });
}

}  // namespace muster::launcherd::doctor

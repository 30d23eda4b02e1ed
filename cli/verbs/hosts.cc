// `muster hosts`: lists launcherd's hosts, drains and resumes them.
#include <algorithm>

#include "base/env.h"
#include "base/print.h"
#include "base/strings.h"
#include "cli/verbs/found_jobs.h"
#include "cli/verbs/launcher_address.h"
#include "cli/verbs/launcherd_verbs.h"
#include "cli/verbs/resize.h"
#include "cli/verbs/verb.h"
#include "cli/view/gpu_table.h"
#include "cli/view/host_table.h"
#include "cli/view/short_rows.h"
#include "proto/message_json.h"

namespace muster::cli::inline verbs {
namespace {

base::Result<v1::LauncherHost> change(const VerbCall& call, launcherd::ApiClient& client, const std::string& host) {
  if (call.words().front() == "resume") {
    v1::ResumeHostRequest request;
    request.set_host(host);
    return client.resume_host(request, kPatience);
  }
  v1::DrainHostRequest request;
  request.set_host(host);
  if (const Setting* const reason = call.settings().find("reason")) request.set_reason(reason->value);
  return client.drain_host(request, kPatience);
}

// Returns the hosts to show. If the words say so, it drains or resumes them first. It stops at the first host that
// fails and returns its error.
base::Result<std::vector<v1::LauncherHost>> act(const VerbCall& call, launcherd::ApiClient& client) {
  std::vector<v1::LauncherHost> hosts;
  MUSTER_ASSIGN_OR_RETURN(const v1::ListHostsResponse listed, client.list_hosts(kPatience));
  if (call.words().empty()) return std::vector<v1::LauncherHost>(listed.hosts().begin(), listed.hosts().end());
  std::vector<std::string> names(call.words().begin() + 1, call.words().end());
  // Names that launcherd does not list come first. They fail before any host is changed.
  std::stable_partition(names.begin(), names.end(), [&](const std::string& name) {
    return std::none_of(listed.hosts().begin(), listed.hosts().end(),
                        [&](const v1::LauncherHost& host) { return host.name() == name; });
  });
  for (const std::string& name : names) {
    MUSTER_ASSIGN_OR_RETURN(v1::LauncherHost host, change(call, client, name));
    hosts.push_back(std::move(host));
  }
  return hosts;
}

base::Status check_words(const VerbCall& call) {
  if (call.words().empty()) {
    if (!call.has("reason")) return base::ok_status();
    return {base::Code::kInvalidArgument, "--reason belongs to drain: muster hosts drain HOST --reason TEXT"};
  }
  const std::string& action = call.words().front();
  if (action != "drain" && action != "resume") {
    return base::invalid_argument("'{}' is not drain, resume or add", base::printable(action));
  }
  if (call.words().size() > 1) return base::ok_status();
  return base::invalid_argument("which host? muster hosts {} HOST; muster hosts lists them", action);
}

std::string gpus_of(const std::vector<v1::LauncherHost>& hosts) {
  std::string table = format_gpus(hosts);
  if (table.empty())
    base::print_remark("muster hosts: no GPU is known; a host tells of its GPUs when its agent is up\n");
  return table;
}

}  // namespace

int run_hosts(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, hosts_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  if (!call.words().empty() && call.words().front() == "add") return add_hosts_to_job(call);
  if (const base::Status words = check_words(call); !words.ok()) return call.fail(words);
  const auto launcher = need_launcherd(call.settings(), base::Environment::current());
  if (!launcher.ok()) return call.fail(launcher.status());
  launcherd::ApiClient client(*launcher);
  const auto hosts = act(call, client);
  if (!hosts.ok()) return call.fail(hosts.status());
  if (!call.has("json"))
    return call.print(call.has("gpus") ? gpus_of(*hosts) : format_hosts(*hosts, rows_on_screen(call.has("all"))));
  std::string lines;
  for (const v1::LauncherHost& host : *hosts) lines += proto::message_line(host);
  return call.print(lines);
}

}  // namespace muster::cli::verbs

// Command lines of all site launchers: one function per launcher, and site_commands, which chooses one.
// Read site_commands first, then the function of the launcher in question; HostIndex and split_words stand alone.
#include "launcherd/site/site_command.h"

#include <algorithm>
#include <set>

#include "base/strings.h"

namespace muster::launcherd::inline site {
namespace {

using Words = std::vector<std::string>;
using Targets = std::vector<BootstrapTarget>;

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

Words names_of(const Targets& hosts) {
  Words names;
  for (const BootstrapTarget& host : hosts) names.push_back(host.name);
  return names;
}

Words agent_words(const SiteAgent& agent, const BootstrapTarget* named) {
  Words words = {agent.program};
  append(words, agent.args);
  if (named != nullptr && !agent.join_file.empty()) append(words, {"--host", named->name});
  return words;
}

std::vector<SiteCommand> one_for_all(Words argv, const Targets& hosts, const SiteAgent& agent) {
  append(argv, agent_words(agent, nullptr));
  SiteCommand command{.argv = std::move(argv), .hosts = {}};
  for (std::size_t i = 0; i < hosts.size(); ++i) command.hosts.push_back(i);
  return {std::move(command)};
}

base::Status cannot(BootstrapBy by, const std::string& why) {
  return base::invalid_argument("--bootstrap {}: {}", bootstrap_name(by), why);
}

// Returns each node of the allocation once, in its order. flux numbers its brokers in this order.
Words distinct(const Words& allocation) {
  Words nodes;
  std::set<std::string> seen;
  for (const std::string& name : allocation) {
    if (seen.insert(name).second) nodes.push_back(name);
  }
  return nodes;
}

// Returns the part before the first dot. Returns an address unchanged, because its first part is not a name.
std::string short_name(const std::string& name) {
  return base::IpAddress::parse(name).ok() ? name : name.substr(0, name.find('.'));
}

base::Result<std::size_t> index_in(const SiteLauncher& launcher, const HostIndex& places, const std::string& name) {
  if (const auto place = places.find(name)) return *place;
  const Words nodes = distinct(launcher.allocation);
  return cannot(launcher.by, fmt::format("host {} is not in the current allocation ({})", base::printable(name),
                                         nodes.empty() ? "none found" : base::join(nodes, ", ")));
}

// The step may use everything that the job has on the node: --overlap and --mem=0. It requests no GPUs.
Words srun_words(const Targets& hosts, const SiteAgent& agent) {
  Words words = {"srun",
                 "--overlap",
                 "--mpi=none",
                 "--cpu-bind=none",
                 "--kill-on-bad-exit=0",
                 "--wait=0",
                 "--no-kill",
                 "--mem=0",
                 "--input=none",
                 "--unbuffered",
                 "--job-name=muster",
                 "--chdir=/",
                 "--distribution=block"};
  words.push_back(agent.join_file.empty() ? "--export=HOME,USER,PATH" : "--export=MUSTER_JOIN=" + agent.join_file);
  words.push_back(fmt::format("--nodes={}", hosts.size()));
  words.push_back(fmt::format("--ntasks={}", hosts.size()));
  words.emplace_back("--ntasks-per-node=1");
  words.push_back("--nodelist=" + base::join(names_of(hosts), ","));
  return words;
}

// Converts node names to aprun's numbers: "nid03835" is node 3835.
base::Result<Words> aprun_words(const Targets& hosts, const SiteAgent& agent) {
  Words ids;
  for (const BootstrapTarget& host : hosts) {
    const std::string_view name = host.name;
    const auto id = name.starts_with("nid") ? base::parse_decimal(name.substr(3, name.find('.') - 3), 99'999'999)
                                            : base::parse_decimal(name, 99'999'999);
    if (!id) {
      return cannot(BootstrapBy::kAprun,
                    fmt::format("'{}' is not an ALPS node name such as nid00001", base::printable(host.name)));
    }
    ids.push_back(std::to_string(*id));
  }
  Words words = {"aprun", "-n", std::to_string(hosts.size()), "-N", "1", "-cc", "none", "-b",
                 "-q",    "-L", base::join(ids, ",")};
  if (!agent.join_file.empty()) append(words, {"-e", "MUSTER_JOIN=" + agent.join_file});
  return words;
}

Words pals_words(const Targets& hosts, const SiteAgent& agent) {
  Words words = {"mpiexec",    "-n",           std::to_string(hosts.size()), "--ppn", "1", "--cpu-bind", "none",
                 "--hostfile", agent.host_file};
  if (!agent.join_file.empty()) append(words, {"--env", "MUSTER_JOIN=" + agent.join_file});
  return words;
}

base::Result<std::vector<SiteCommand>> pbsdsh_commands(const SiteLauncher& launcher, const Targets& hosts,
                                                       const SiteAgent& agent) {
  const HostIndex places(launcher.allocation);
  std::vector<SiteCommand> commands;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(const std::size_t index, index_in(launcher, places, hosts[i].name));
    Words argv = {"pbsdsh", "-n", std::to_string(index), "--"};
    append(argv, agent_words(agent, &hosts[i]));
    commands.push_back({.argv = std::move(argv), .hosts = {i}});
  }
  return commands;
}

base::Result<std::vector<SiteCommand>> flux_commands(const SiteLauncher& launcher, const Targets& hosts,
                                                     const SiteAgent& agent) {
  Words ranks;
  const HostIndex places(distinct(launcher.allocation));
  for (const BootstrapTarget& host : hosts) {
    MUSTER_ASSIGN_OR_RETURN(const std::size_t rank, index_in(launcher, places, host.name));
    ranks.push_back(std::to_string(rank));
  }
  return one_for_all({"flux", "exec", "-n", "-r", base::join(ranks, ",")}, hosts, agent);
}

base::Result<std::vector<SiteCommand>> jsrun_commands(const SiteLauncher& launcher, const Targets& hosts,
                                                      const SiteAgent& agent) {
  const std::size_t nodes = distinct(launcher.allocation).size();
  if (nodes != 0 && nodes != hosts.size()) {
    return cannot(launcher.by, fmt::format("jsrun starts on all {} hosts of the allocation or on its first ones, but "
                                           "the job asks for {}: use ssh for some of the hosts",
                                           nodes, hosts.size()));
  }
  const std::string count = std::to_string(hosts.size());
  Words words = {"jsrun", "-n", count, "-r", "1", "-a", "1", "-c", "ALL_CPUS", "-g", "ALL_GPUS", "-b", "none"};
  if (!agent.join_file.empty()) append(words, {"-E", "MUSTER_JOIN=" + agent.join_file});
  return one_for_all(std::move(words), hosts, agent);
}

// Replaces {host} and {cmd} in `words`. A {cmd} that is a word of its own becomes the words of the command.
Words filled_in(const Words& words, const BootstrapTarget& host, const SiteAgent& agent) {
  const Words command = agent_words(agent, &host);
  Words quoted;
  for (const std::string& word : command) quoted.push_back(base::shell_quote(word));
  const std::string in_one = base::join(quoted, " ");
  const std::string name = host.user.empty() ? host.name : host.user + "@" + host.name;
  Words result;
  for (const std::string& word : words) {
    if (word == "{cmd}") {
      append(result, command);
      continue;
    }
    std::string text;
    for (std::string_view rest = word; !rest.empty();) {
      if (rest.starts_with("{host}")) {
        text += name;
        rest.remove_prefix(6);
      } else if (rest.starts_with("{cmd}")) {
        text += in_one;
        rest.remove_prefix(5);
      } else {
        text += rest.front();
        rest.remove_prefix(1);
      }
    }
    result.push_back(std::move(text));
  }
  return result;
}

std::vector<SiteCommand> template_commands(const SiteLauncher& launcher, const Targets& hosts, const SiteAgent& agent) {
  std::vector<SiteCommand> commands;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    commands.push_back({.argv = filled_in(launcher.words, hosts[i], agent), .hosts = {i}});
  }
  return commands;
}

}  // namespace

std::string_view bootstrap_name(BootstrapBy by) {
  switch (by) {
    case BootstrapBy::kAuto:
      return "auto";
    case BootstrapBy::kSsh:
      return "ssh";
    case BootstrapBy::kSrun:
      return "srun";
    case BootstrapBy::kAprun:
      return "aprun";
    case BootstrapBy::kPals:
      return "pals";
    case BootstrapBy::kPbsdsh:
      return "pbsdsh";
    case BootstrapBy::kFlux:
      return "flux";
    case BootstrapBy::kJsrun:
      return "jsrun";
    case BootstrapBy::kManual:
      return "manual";
    case BootstrapBy::kCommand:
      return "command";
  }
  return "unknown";
}

base::Result<std::vector<SiteCommand>> site_commands(const SiteLauncher& launcher,
                                                     const std::vector<BootstrapTarget>& hosts,
                                                     const SiteAgent& agent) {
  switch (launcher.by) {
    case BootstrapBy::kSrun:
      return one_for_all(srun_words(hosts, agent), hosts, agent);
    case BootstrapBy::kAprun: {
      MUSTER_ASSIGN_OR_RETURN(Words words, aprun_words(hosts, agent));
      return one_for_all(std::move(words), hosts, agent);
    }
    case BootstrapBy::kPals:
      return one_for_all(pals_words(hosts, agent), hosts, agent);
    case BootstrapBy::kPbsdsh:
      return pbsdsh_commands(launcher, hosts, agent);
    case BootstrapBy::kFlux:
      return flux_commands(launcher, hosts, agent);
    case BootstrapBy::kJsrun:
      return jsrun_commands(launcher, hosts, agent);
    case BootstrapBy::kCommand:
      return template_commands(launcher, hosts, agent);
    default:
      return cannot(launcher.by, "no site command is known for it");
  }
}

HostIndex::HostIndex(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!places_.try_emplace(names[i], i).second) continue;
    const auto [place, is_new] = short_places_.try_emplace(short_name(names[i]), i);
    if (!is_new) place->second = std::nullopt;
  }
}

std::optional<std::size_t> HostIndex::find(const std::string& name) const {
  if (const auto whole = places_.find(name); whole != places_.end()) return whole->second;
  const auto in_short = short_places_.find(short_name(name));
  return in_short != short_places_.end() ? in_short->second : std::nullopt;
}

bool needs_host_file(BootstrapBy by) {
  return by == BootstrapBy::kPals;
}

std::string typed_command(const BootstrapTarget& host, const SiteAgent& agent) {
  return base::join(agent_words(agent, &host), " ");
}

std::vector<std::string> variables_without(BootstrapBy by) {
  if (by != BootstrapBy::kSrun) return {};
  return {"SLURM_CPUS_PER_TASK",
          "SRUN_CPUS_PER_TASK",
          "SLURM_TRES_PER_TASK",
          "SLURM_NTASKS_PER_CORE",
          "SLURM_NTASKS_PER_GPU",
          "SLURM_NTASKS_PER_NODE",
          "SLURM_NTASKS_PER_SOCKET",
          "SLURM_NTASKS",
          "SLURM_NPROCS",
          "SLURM_DISTRIBUTION",
          "SLURM_HOSTFILE",
          "SLURM_EXPORT_ENV",
          "SLURM_CPU_BIND",
          "SLURM_CPU_BIND_TYPE",
          "SLURM_CPU_BIND_LIST",
          "SLURM_CPU_BIND_VERBOSE",
          "SLURM_GPUS",
          "SLURM_GPUS_PER_NODE",
          "SLURM_GPUS_PER_SOCKET",
          "SLURM_GPUS_PER_TASK",
          "SLURM_GPU_BIND",
          "SLURM_GRES",
          "SLURM_STEP_GRES",
          "SLURM_MEM_PER_CPU",
          "SLURM_MEM_PER_GPU",
          "SLURM_MEM_PER_NODE",
          "SLURM_THREADS_PER_CORE",
          "SLURM_HINT",
          "SLURM_EXACT",
          "SLURM_EXCLUSIVE",
          "SLURM_LABELIO",
          "SLURM_TIMELIMIT",
          "SLURM_WCKEY",
          "SLURM_IMMEDIATE",
          "SLURM_MULTI_PROG",
          "SLURM_PROLOG",
          "SLURM_TASK_PROLOG",
          "SLURM_TASK_EPILOG",
          "SLURM_SRUN_MULTI"};
}

bool is_usual_remark(std::string_view line) {
  // srun prints this line on clusters without CPU binding, even if --cpu-bind=none asks for no binding.
  return line.find("cluster configuration lacks support for cpu binding") != std::string_view::npos;
}

base::Result<std::vector<std::string>> split_words(std::string_view text) {
  const auto bad = [](std::string_view why) {
    return base::invalid_argument("--bootstrap-cmd: {}, as in 'rsh {{host}} {{cmd}}'", why);
  };
  Words words;
  bool is_word = false;
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_blank = quote == '\0' && (c == ' ' || c == '\t' || c == '\n');
    if (is_blank) {
      is_word = false;
      continue;
    }
    if (!is_word) words.emplace_back();
    is_word = true;
    if (c == '\\' && quote != '\'') {
      if (++i == text.size()) return bad("the command ends with a backslash");
      words.back() += text[i];
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote && quote != '\0') {
      quote = '\0';
    } else {
      words.back() += c;
    }
  }
  if (quote != '\0') return bad(fmt::format("a {} is not closed", quote));
  const auto has = [&words](std::string_view part) {
    return std::ranges::any_of(words, [part](const std::string& word) { return word.find(part) != std::string::npos; });
  };
  if (words.empty() || words.front().empty()) return bad("the command names no program");
  if (!has("{host}") || !has("{cmd}")) return bad("the command must contain {host} and {cmd}");
  return words;
}

}  // namespace muster::launcherd::site

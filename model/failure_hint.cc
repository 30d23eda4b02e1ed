// One function for each kind of hint. Read failure_hints() first, at the end.
#include "model/failure_hint.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/traceback.h"

namespace muster::model {
namespace {

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// "python3", "/usr/bin/python3.11", "pypy3".
bool is_python(std::string_view program) {
  const std::string_view name = base_name(program);
  return name.starts_with("python") || name.starts_with("pypy");
}

bool is_container(std::string_view program) {
  const std::string_view name = base_name(program);
  return name == "apptainer" || name == "singularity";
}

std::string name_hosts(const std::vector<std::string>& hosts) {
  constexpr std::size_t kNamed = 3;
  if (hosts.size() == 1) return hosts.front();
  if (hosts.size() <= kNamed) {
    const std::vector<std::string> first(hosts.begin(), hosts.end() - 1);
    return base::join(first, ", ") + " and " + hosts.back();
  }
  const std::vector<std::string> first(hosts.begin(), hosts.begin() + kNamed);
  return fmt::format("{} and {} more hosts", base::join(first, ", "), hosts.size() - kNamed);
}

std::string describe_memory(const RankEnd& end) {
  if (end.facts.peak_memory_mib == 0) return "";
  std::string text = fmt::format("it had used up to {} of memory", format_mib(end.facts.peak_memory_mib));
  if (end.facts.free_memory_mib > 0) {
    text += fmt::format("; {} had {} free just after", end.host, format_mib(end.facts.free_memory_mib));
  }
  return text;
}

// A SIGKILL that Muster did not send.
void add_kill(const RankEnd& end, std::vector<std::string>* hints) {
  const std::string memory = describe_memory(end);
  if (end.out_of_memory) {
    if (!memory.empty()) hints->push_back(memory);
    if (!end.facts.kernel_line.empty()) hints->push_back("the kernel of " + end.host + ": " + end.facts.kernel_line);
    hints->push_back(fmt::format("what helps: fewer ranks on {} ({}:SLOTS in -H), smaller batches, fewer data loaders",
                                 end.host, end.host));
    return;
  }
  hints->push_back(fmt::format("Muster did not send this signal{}{}", memory.empty() ? "" : "; ", memory));
  const std::string& line = end.facts.kernel_line;
  hints->push_back(line.empty() ? fmt::format("often the kernel was out of memory: run dmesg on {}", end.host)
                                : fmt::format("the kernel of {} was out of memory and killed, perhaps this rank: {}",
                                              end.host, line));
}

void add_crash(const RankEnd& end, std::string_view tail, std::vector<std::string>* hints) {
  const EndFacts& facts = end.facts;
  if (!facts.core_file.empty()) {
    hints->push_back(fmt::format("its core is {} on {}: gdb {} {}", facts.core_file, end.host,
                                 facts.program.empty() ? "PROGRAM" : facts.program, facts.core_file));
  } else if (!facts.core_note.empty()) {
    hints->push_back(facts.core_note);
  }
  if (is_python(facts.program) && tail.find("Fatal Python error") == std::string_view::npos) {
    hints->push_back("-x PYTHONFAULTHANDLER=1 makes Python print the line at which it crashes");
  }
}

// Returns where the module or library is missing: "on n1 and n2, python3 is /usr/bin/python3".
std::string describe_python(const RankEnd& end, const std::vector<RankEnd>& alike) {
  std::map<int, std::string> host_of_rank{{end.rank, end.host}};
  std::set<std::string> programs{end.facts.program};
  for (const RankEnd& other : alike) {
    host_of_rank[other.rank] = other.host;
    if (!other.facts.program.empty()) programs.insert(other.facts.program);  // empty if it ended during the stop
  }
  std::vector<std::string> hosts;
  for (const auto& [rank, host] : host_of_rank) {
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  const std::string where = name_hosts(hosts);
  if (!is_python(end.facts.program)) {
    return fmt::format("on {}, {}", where, is_container(end.facts.program) ? "the python of the image" : "its python");
  }
  // Paths may differ from host to host. The root cause's is an example then.
  if (programs.size() > 1) {
    return fmt::format("on {}, python ({} on {})", where, end.facts.program, end.host);
  }
  return fmt::format("on {}, {} is {}, which", where, base_name(end.facts.program), end.facts.program);
}

void add_missing(const RankEnd& end, const std::vector<RankEnd>& alike, std::string_view tail,
                 std::vector<std::string>* hints) {
  const std::string_view exception = exception_line(tail);
  const std::string_view last = base::trim(tail.substr(base::trim(tail).rfind('\n') + 1));
  if (const std::string library = missing_library(exception); !library.empty()) {
    hints->push_back(
        fmt::format("{} does not find {}: install it there, or name its folder with "
                    "-x LD_LIBRARY_PATH=FOLDER",
                    describe_python(end, alike), base::printable(library)));
    return;
  }
  const std::string module = missing_module(exception.empty() ? last : exception);
  if (module.empty()) return;
  hints->push_back(fmt::format("{} has no module '{}'", describe_python(end, alike), base::printable(module)));
  const std::string python = is_python(end.facts.program) ? end.facts.program : "python3";
  const std::string top = base::printable(module.substr(0, module.find('.')));
  hints->push_back(
      fmt::format("install it there ({} -m pip install {}), name the python that has it, or the folder of your own "
                  "module with -x PYTHONPATH=FOLDER",
                  python, top));
}

}  // namespace

std::string format_mib(std::int64_t mib) {
  return mib < 1024 ? fmt::format("{} MiB", mib) : fmt::format("{:.1f} GiB", static_cast<double>(mib) / 1024);
}

std::vector<std::string> failure_hints(const RankEnd& end, const std::vector<RankEnd>& alike,
                                       std::string_view stderr_tail) {
  std::vector<std::string> hints;
  if (end.kind == EndKind::kSignalled && !end.detail.empty()) {
    return hints;  // Muster has ended it, and `detail` says why
  }
  if (end.kind == EndKind::kSignalled && end.signal == SIGKILL) {
    add_kill(end, &hints);
  } else if (end.kind == EndKind::kSignalled) {
    add_crash(end, stderr_tail, &hints);
  } else if (end.kind == EndKind::kExited && end.out_of_memory) {
    add_kill(end, &hints);
  } else if (end.kind == EndKind::kExited && end.failed()) {
    add_missing(end, alike, stderr_tail, &hints);
  }
  return hints;
}

}  // namespace muster::model

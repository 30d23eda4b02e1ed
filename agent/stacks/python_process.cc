// read_python_stacks(pid): finds the interpreter in a live process.
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "agent/proc/proc_table.h"
#include "agent/stacks/kernel_stack.h"
#include "agent/stacks/mapped_files.h"
#include "agent/stacks/python_stack.h"
#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline stacks {
namespace {

constexpr std::size_t kMaxMaps = 64u << 20;
constexpr std::size_t kMaxStatus = 64u << 10;

// Returns the last number of the line "NSpid:", which is the id as the thread itself sees it. 0 if there is none.
pid_t own_id(std::string_view status) {
  for (const std::string_view line : base::split(status, '\n')) {
    if (!line.starts_with("NSpid:")) continue;
    const std::string_view ids = base::trim(line.substr(6));
    const auto blank = ids.find_last_of(" \t");
    const auto id = base::parse_decimal(blank == std::string_view::npos ? ids : ids.substr(blank + 1), 1L << 30);
    return id ? static_cast<pid_t>(*id) : 0;
  }
  return 0;
}

// In a container the threads see other ids than the host.
std::map<pid_t, pid_t> thread_ids(pid_t pid) {
  const auto seen = [&](pid_t tid) {
    const auto status = base::read_file(fmt::format("/proc/{}/task/{}/status", pid, tid), kMaxStatus);
    const pid_t own = status.ok() ? own_id(*status) : 0;
    return own == 0 ? tid : own;
  };
  std::map<pid_t, pid_t> ids;
  const bool is_contained = seen(pid) != pid;
  for (const pid_t tid : threads_of(pid)) ids.emplace(is_contained ? seen(tid) : tid, tid);
  return ids;
}

// True for python, python3 and python3.11-dbg, but not for pythonish.
bool is_named_python(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with("python")) return false;
  name.remove_prefix(6);
  const auto end = name.find_first_not_of("0123456789.");
  return end == std::string_view::npos || name[end] == '-';
}

PythonStacks without(std::string version, std::string problem) {
  return {.version = std::move(version), .threads = {}, .problem = std::move(problem)};
}

}  // namespace

std::optional<PythonStacks> read_python_stacks(pid_t pid, base::UniqueFd fd) {
  const auto process = read_process(pid);
  if (!process || process->is_dead()) return std::nullopt;
  const auto maps = base::read_file(fmt::format("/proc/{}/maps", pid), kMaxMaps);
  const std::string program = program_of(pid);
  const std::vector<MappedFile> files = maps.ok() ? python_candidates(*maps, program) : std::vector<MappedFile>();
  const bool seems_python = is_named_python(program) || is_named_python(process->command) ||
                            std::ranges::any_of(files, [&](const MappedFile& file) { return file.path != program; });
  if (files.empty() && !seems_python) return std::nullopt;
  if (!fd.valid()) {
    auto memory = ProcessMemory::open_fd(pid);
    if (!memory.ok()) {
      if (!seems_python) return std::nullopt;
      return without("", "its memory cannot be read: " + memory.status().message());
    }
    fd = std::move(*memory);
  }
  ProcessMemory memory(pid, std::move(fd));
  std::string problem;
  std::optional<PythonStacks> empty;  // of an interpreter without threads
  for (const MappedFile& file : files) {
    PageCache pages(memory);
    const auto elf = LoadedElf::open(pages, file.start);
    if (!elf) continue;
    const auto python = find_python(pages, *elf);
    if (python.ok()) {
      PythonStacks stacks = read_python_stacks(memory, *python, thread_ids(pid));
      // Another mapping of the file may be the loaded one.
      if (!stacks.threads.empty()) return stacks;
      if (!empty) empty = std::move(stacks);
      continue;
    }
    if (python.status().code() != base::Code::kNotFound) problem = python.status().message();
  }
  if (empty) return empty;
  if (!problem.empty()) return without("", problem);
  if (!seems_python) return std::nullopt;
  return without("", "neither the program nor a libpython exports _PyRuntime: it is stripped, or older than 3.8");
}

}  // namespace muster::agent::stacks

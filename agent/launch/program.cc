// Finding a program and explaining why it could not be run. Read program_candidates() and explain_exec_failure()
// first.
// The helpers above them each explain one kind of failure.

#include "agent/launch/program.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/shortened.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace muster::agent::inline launch {
namespace {

constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";
constexpr std::size_t kHeadBytes = 4096;
// Keep it short, because every rank sends this text, and each rank's text is sent to all others.
constexpr std::size_t kShownPath = 1024;

#if defined(__x86_64__)
constexpr unsigned kOwnMachine = EM_X86_64;
#else
constexpr unsigned kOwnMachine = EM_AARCH64;
#endif

std::string_view path_of(const std::vector<std::string>& env) {
  for (const std::string& entry : env) {
    if (entry.starts_with("PATH=")) return std::string_view(entry).substr(5);
  }
  return kDefaultPath;
}

std::string current_directory() {
  char buffer[4096];
  return ::getcwd(buffer, sizeof buffer) != nullptr ? buffer : ".";
}

std::string workdir_of(const SpawnRequest& request) {
  return request.workdir.empty() ? current_directory() : request.workdir;
}

std::string absolute(const SpawnRequest& request, const std::string& path) {
  return path.starts_with('/') ? path : fmt::format("{}/{}", workdir_of(request), path);
}

std::string read_head(const std::string& path) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string head(kHeadBytes, '\0');
  const ssize_t n = fd.valid() ? ::read(fd.get(), head.data(), head.size()) : -1;
  head.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return head;
}

bool is_elf(std::string_view head) {
  return head.starts_with(std::string_view(ELFMAG, SELFMAG));
}

// Returns the path after "#!". nullopt for other files.
std::optional<std::string> script_interpreter(std::string_view head) {
  if (!head.starts_with("#!")) return std::nullopt;
  std::string_view line = head.substr(2, head.find('\n') - 2);
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  return std::string(line.substr(0, line.find_first_of(" \t")));
}

// Returns the dynamic loader that a 64-bit ELF program names. nullopt if the first bytes contain none.
std::optional<std::string> elf_loader(std::string_view head) {
  Elf64_Ehdr header{};
  if (!is_elf(head) || head.size() < sizeof header || head[EI_CLASS] != ELFCLASS64) return std::nullopt;
  std::memcpy(&header, head.data(), sizeof header);
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    const std::size_t at = header.e_phoff + i * sizeof segment;
    if (at > head.size() || head.size() - at < sizeof segment) return std::nullopt;
    std::memcpy(&segment, head.data() + at, sizeof segment);
    if (segment.p_type != PT_INTERP) continue;
    if (segment.p_offset >= head.size()) return std::nullopt;
    const std::string_view rest = head.substr(segment.p_offset, segment.p_filesz);
    return std::string(rest.substr(0, rest.find('\0')));
  }
  return std::nullopt;
}

std::string machine_name(unsigned machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "arm";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390";
    case EM_RISCV:
      return "riscv";
    default:
      return fmt::format("ELF machine {}", machine);
  }
}

bool is_python_script(std::string_view path, std::string_view head) {
  const auto interpreter = script_interpreter(head);
  if (!interpreter) return path.ends_with(".py");
  const std::string_view line = head.substr(0, head.find('\n'));  // may be "#!/usr/bin/env python3"
  return line.find("python") != std::string_view::npos;
}

std::string explain_noexec(std::string_view path, std::string_view head) {
  if (is_python_script(path, head)) {
    return fmt::format("it has no first line such as #!/usr/bin/env python3: use python3 {}", base::printable(path));
  }

  if (is_elf(head) && head.size() >= sizeof(Elf64_Ehdr)) {
    Elf64_Ehdr header{};
    std::memcpy(&header, head.data(), sizeof header);  // e_machine has the same offset in 32-bit headers
    if (header.e_machine != kOwnMachine) {
      return fmt::format("it is a program for {}, but this host is {}", machine_name(header.e_machine),
                         machine_name(kOwnMachine));
    }
    return "it is a damaged program";
  }
  if (is_elf(head)) return "it is a damaged program";
  return "it is neither a program nor a script";
}

// Explains ENOENT for a file that exists: an interpreter or a loader that the file names is missing.
std::string explain_missing_interpreter(std::string_view head) {
  if (auto interpreter = script_interpreter(head)) {
    if (interpreter->ends_with('\r')) {
      return "its first line ends with a carriage return (Windows line ends; dos2unix removes them)";
    }
    return fmt::format("its interpreter '{}' (first line of the file) does not exist", base::printable(*interpreter));
  }
  if (const auto loader = elf_loader(head)) {
    return fmt::format("its loader '{}' does not exist on this host", base::printable(*loader));
  }
  return "a file that it needs for loading does not exist on this host";
}

// `name` is the program as the user gave it.
std::string explain_not_executable(const std::string& name, const std::string& path, mode_t mode) {
  const std::string head = read_head(path);
  if (!is_python_script(path, head))
    return fmt::format("it is not executable (mode {:04o}; chmod +x makes it so)", mode);
  const bool has_interpreter = script_interpreter(head).has_value();
  return fmt::format("it is not executable (mode {:04o}): {}use python3 {}", mode,
                     has_interpreter ? "chmod +x it, or " : "", base::printable(name));
}

std::string explain_denied(const std::string& name, const std::string& path, const struct stat& info) {
  if (S_ISDIR(info.st_mode)) return "it is a directory";
  if (!S_ISREG(info.st_mode)) return "it is not a regular file";
  if ((info.st_mode & 0111) == 0) {
    return explain_not_executable(name, path, info.st_mode & 07777);
  }
  struct statvfs file_system {};
  if (::statvfs(path.c_str(), &file_system) == 0 && (file_system.f_flag & ST_NOEXEC) != 0) {
    return "it lies on a file system that is mounted noexec";
  }
  const auto interpreter = script_interpreter(read_head(path));
  if (interpreter && ::access(path.c_str(), X_OK) == 0) {
    return fmt::format("its interpreter '{}' (first line of the file) is not executable",
                       base::printable(*interpreter));
  }
  return fmt::format("permission denied (mode {:04o}, owner {})", info.st_mode & 07777, info.st_uid);
}

bool is_in_path(const SpawnRequest& request, std::string_view name) {
  for (const std::string& candidate : program_candidates(name, request.env)) {
    if (::access(absolute(request, candidate).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::size_t bytes_of(const SpawnRequest& request) {
  std::size_t bytes = 0;
  for (const std::string& word : request.argv) bytes += word.size() + 1;
  for (const std::string& word : request.env) bytes += word.size() + 1;
  return bytes;
}

// Returns what to run instead of a name that is not in PATH. Empty if nothing like it is there.
std::string find_other_way(const SpawnRequest& request, const std::string& name) {
  if (name == "python" && is_in_path(request, "python3")) return ", but python3 is: use python3";
  const std::string path = absolute(request, name);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return "";
  const std::string head = read_head(path);
  const bool is_executable = ::access(path.c_str(), X_OK) == 0;
  const std::string shown = base::printable(name);
  std::string ways;
  if (is_python_script(name, head)) ways = "python3 " + shown;
  if (is_executable && (ways.empty() || script_interpreter(head))) ways += (ways.empty() ? "./" : " or ./") + shown;
  if (ways.empty())
    return fmt::format(", but it is in {} and not executable: chmod +x it, then use ./{}",
                       base::printable(workdir_of(request)), shown);
  return fmt::format(", but it is in {}: use {}", base::printable(workdir_of(request)), ways);
}

ExecFailure explain_not_found(const SpawnRequest& request, const std::string& name) {
  if (name.empty()) return {model::kNotFound, "cannot run '': the command is empty"};
  const std::string shown = base::printable(name);
  if (name.find('/') == std::string::npos) {
    const std::string other_way = find_other_way(request, name);
    if (!other_way.empty()) {
      return {model::kNotFound, fmt::format("cannot run '{}': not found in PATH{}", shown, other_way)};
    }
    return {model::kNotFound, fmt::format("cannot run '{}': not found in PATH ({})", shown,
                                          base::shortened(base::printable(path_of(request.env)), kShownPath))};
  }
  if (name.starts_with('/')) return {model::kNotFound, fmt::format("cannot run '{}': no such file", shown)};
  return {model::kNotFound,
          fmt::format("cannot run '{}': no such file in {}", shown, base::printable(workdir_of(request)))};
}

}  // namespace

std::vector<std::string> program_candidates(std::string_view name, const std::vector<std::string>& env) {
  if (name.empty()) return {};
  if (name.find('/') != std::string_view::npos) return {std::string(name)};
  std::vector<std::string> candidates;
  for (const std::string_view folder : base::split(path_of(env), ':')) {
    // An empty element means the working directory.
    candidates.push_back(folder.empty() ? fmt::format("./{}", name) : fmt::format("{}/{}", folder, name));
  }
  return candidates;
}

ExecFailure explain_exec_failure(const SpawnRequest& request, const std::string& path, int errno_value) {
  const std::string name = request.argv.empty() ? std::string() : request.argv.front();
  const std::string full = absolute(request, path);
  struct stat info {};
  const bool exists = !path.empty() && ::stat(full.c_str(), &info) == 0;
  const bool denied_on_the_way = !exists && errno == EACCES;
  std::string why;
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
      if (!exists) return explain_not_found(request, name);
      why = explain_missing_interpreter(read_head(full));
      break;
    case EACCES:
      why = denied_on_the_way ? "a directory in its path cannot be entered" : explain_denied(name, full, info);
      break;
    case ENOEXEC:
      why = explain_noexec(name, read_head(full));
      break;
    case E2BIG:
      why = fmt::format("arguments and environment are too long ({} bytes)", bytes_of(request));
      break;
    case ETXTBSY:
      why = "it is open for writing";
      break;
    default:
      why = std::strerror(errno_value);
  }
  // Show the full path of a program that the search found, so that the user sees which of several it was.
  const std::string& shown = name.find('/') == std::string::npos && !path.empty() ? path : name;
  return {model::kNotExecutable, fmt::format("cannot run '{}': {}", base::printable(shown), why)};
}

bool is_shell_text(const SpawnRequest& request, const std::string& path) {
  const std::string head = read_head(absolute(request, path));
  const std::string_view first_line = std::string_view(head).substr(0, head.find('\n'));
  if (path.ends_with(".py")) return false;  // /bin/sh would run Python's words as commands
  return !is_elf(head) && !head.starts_with("#!") && first_line.find('\0') == std::string_view::npos;
}

}  // namespace muster::agent::launch

// All of py_spy.h. Read ask_py_spy() at the end first.
#include "agent/evidence/py_spy.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fmt/format.h>

#include "agent/evidence/limited_stream.h"
#include "agent/proc/proc_table.h"
#include "base/json.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace muster::agent::inline evidence {
namespace {

constexpr std::size_t kLongestOutput = 4u << 20;
constexpr std::size_t kLongestPySpyName = 1024;  // bytes of a path or a function

base::Status no_output(std::string_view why) {
  return base::invalid_argument("py-spy: {}", why);
}

PythonFrame frame_of(const base::JsonNode& node) {
  constexpr std::int64_t kMostLines = 1 << 30;
  PythonFrame frame;
  frame.function = node.text_at("name").substr(0, kLongestPySpyName);
  frame.file = node.text_at("filename").substr(0, kLongestPySpyName);
  frame.line = static_cast<int>(std::clamp<std::int64_t>(node.number_at("line").value_or(0), 0, kMostLines));
  return frame;
}

// Starts the program with `output` as its stdout. It ends with this thread.
pid_t start_py_spy(const std::string& program, const std::string& pid, int output) {
  const char* const arguments[] = {program.c_str(), "dump", "--json", "--nonblocking", "--pid", pid.c_str(), nullptr};
  const char* const environment[] = {nullptr};
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(null, STDERR_FILENO);
  ::execve(program.c_str(), const_cast<char* const*>(arguments), const_cast<char* const*>(environment));
  ::_exit(127);
}

// Waits for the end of the child until the deadline, and then ends it. Returns its wait status.
int reap(pid_t child, std::chrono::steady_clock::time_point deadline) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  pollfd poll{.fd = -1, .events = POLLIN, .revents = 0};
  const base::UniqueFd pidfd = open_pidfd(child);
  poll.fd = pidfd.get();
  const bool has_ended = pidfd.valid() && left > 0 && ::poll(&poll, 1, static_cast<int>(left)) > 0;
  if (!has_ended) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

std::string find_in_path(std::string_view name, std::string_view path) {
  for (const std::string_view folder : base::split(path, ':')) {
    if (!folder.starts_with('/')) continue;
    const std::string program = fmt::format("{}/{}", folder, name);
    struct stat status {};
    if (::stat(program.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

base::Result<std::vector<PythonFrame>> parse_py_spy(std::string_view json, pid_t pid) {
  MUSTER_ASSIGN_OR_RETURN(const base::JsonNode threads, base::parse_json(json));
  if (threads.kind != base::JsonNode::Kind::kArray) return no_output("the output is no list of threads");
  const auto main = std::ranges::find_if(threads.items, [pid](const base::JsonNode& thread) {
    const auto tid = thread.number_at("os_thread_id");
    return tid ? *tid == pid : thread.text_at("thread_name") == "MainThread";
  });
  if (main == threads.items.end()) return no_output("the output has no main thread");
  std::vector<PythonFrame> frames;
  for (const base::JsonNode& frame : main->array_at("frames")) {
    if (frames.size() == kMaxPythonFrames) break;
    frames.push_back(frame_of(frame));
  }
  if (frames.empty()) return no_output("the main thread has no frames");
  return frames;
}

base::Result<std::vector<PythonFrame>> ask_py_spy(const std::string& program, pid_t pid,
                                                  std::chrono::steady_clock::time_point deadline) {
  MUSTER_ASSIGN_OR_RETURN(base::FdPair pipe, base::make_pipe());
  const pid_t child = start_py_spy(program, std::to_string(pid), pipe.second.get());
  if (child < 0) return base::errno_error(errno, "start py-spy");
  pipe.second.reset();
  auto stream = LimitedStream::adopt(std::move(pipe.first), {.deadline = deadline, .bytes = kLongestOutput});
  const auto output = stream.ok() ? stream->read_to_end() : base::Result<std::string>(stream.status());
  const int status = reap(child, output.ok() ? deadline : std::chrono::steady_clock::time_point());
  if (!output.ok()) return output.status();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return base::unavailable("py-spy cannot read the process either");
  }
  return parse_py_spy(*output, pid);
}

}  // namespace muster::agent::evidence

// muster-unpack: the small program that a launcher sends to a host before the agent. It receives the compressed agent,
// checks its hash, puts it into its own folder, and becomes the agent.
//
//   muster-unpack NAME ARGUMENTS…     NAME: the agent's file name; ARGUMENTS: those of the agent
//
// It speaks with the launcher over stdin and stdout (launcherd/bootstrap/packed_send.h):
//   it writes        MUSTER-STEP source [WHY]    ready for a line of source_line.h and its bytes; WHY: what was wrong
//                                                with the host from which it should fetch the agent
//   it writes        MUSTER-STEP stored [PORT]   the agent is in its place and begins now; PORT: it is served there
// After a failure it writes the reason to stderr, removes its temporary files and exits with status 1.
// It is static and has neither fmt nor iostream, because it is sent to every new host in full.
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "agent/unpack/fetch.h"
#include "agent/unpack/input.h"
#include "agent/unpack/place.h"
#include "agent/unpack/seed.h"
#include "agent/unpack/source_line.h"
#include "agent/unpack/unpacker.h"

namespace muster::agent {
namespace {

constexpr std::chrono::seconds kLauncherPatience{120};

Problem print_step(const std::string& step) {
  const std::string line = "MUSTER-STEP " + step + "\n";
  const ssize_t count = ::write(STDOUT_FILENO, line.data(), line.size());
  return count == static_cast<ssize_t>(line.size()) ? Problem() : errno_problem(errno, "cannot reach the launcher");
}

std::string own_program_path() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length <= 0 || length == sizeof path ? "" : std::string(path, static_cast<std::size_t>(length));
}

Problem unpack_from(Input& input, const SourceLine& source, int fd) {
  HashedFile file(fd, source.size);
  Unpacker unpacker(file);
  for (std::uint64_t left = source.packed_size; left > 0;) {
    std::string_view bytes;
    if (Problem problem = input.read_some(bytes, left); !problem.empty()) return problem;
    left -= bytes.size();
    if (Problem problem = unpacker.add(bytes); !problem.empty()) return problem;
  }
  if (Problem problem = unpacker.check_end(); !problem.empty()) return problem;
  return file.check(source.sha256);
}

Problem fetch_from(const SourceLine& source, int fd) {
  HashedFile file(fd, source.size);
  if (Problem problem = fetch_agent(source.address, source.port, source.token, file); !problem.empty()) return problem;
  return file.check(source.sha256);
}

// Takes the agent from the sources that the launcher names, until one is good. The launcher's own bytes must be.
Problem receive_agent(Place& place, SourceLine& source) {
  Input input(STDIN_FILENO, kLauncherPatience);
  std::string why;
  for (;;) {
    if (Problem problem = print_step("source" + why); !problem.empty()) return problem;
    std::string line;
    if (Problem problem = input.read_line(line, kLongestSourceLine); !problem.empty()) return problem;
    const auto parsed = parse_source_line(line);
    if (!parsed) return "the launcher sent an unknown line";
    source = *parsed;
    int fd = -1;
    if (Problem problem = place.create(fd); !problem.empty()) return problem;
    if (source.packed_size > 0) return unpack_from(input, source, fd);
    const Problem problem = fetch_from(source, fd);
    if (problem.empty()) return {};
    why = " " + problem;
  }
}

Problem store_agent(Place& place, const std::string& name) {
  SourceLine source;
  if (Problem problem = receive_agent(place, source); !problem.empty()) return problem;
  if (Problem problem = place.keep(name); !problem.empty()) return problem;
  int port = 0;
  const bool is_seed = source.packed_size > 0 && !source.token.empty() &&
                       start_seed(place.path_of(name), source.token, port).empty();  // without a seed, others send it
  return print_step(is_seed ? "stored " + std::to_string(port) : "stored");
}

// Returns the path of the agent, which is in its place, or a problem.
Problem put_in_place(const std::string& name, std::string& path) {
  Place place;
  if (Problem problem = place.open(own_program_path()); !problem.empty()) return problem;
  if (name.find('/') != std::string::npos || !name.starts_with("agent-")) return "the agent's file name is wrong";
  path = place.path_of(name);
  return store_agent(place, name);
}

Problem become(const std::string& path, char** arguments) {
  std::string program = path;
  std::string fresh = "--fresh";
  std::vector<char*> argv = {program.data(), fresh.data()};
  for (; *arguments != nullptr; ++arguments) argv.push_back(*arguments);
  argv.push_back(nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  ::execv(path.c_str(), argv.data());
  return errno_problem(errno, "cannot start " + path);
}

}  // namespace
}  // namespace muster::agent

int main(int argc, char** argv) {
  using namespace muster::agent;
  // So that a lost launcher and a file size limit are errors, after which the files are removed.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  std::string path;
  Problem problem = argc < 2 ? "usage: muster-unpack NAME ARGUMENTS..." : put_in_place(argv[1], path);
  if (problem.empty()) problem = become(path, argv + 2);
  const std::string line = "muster-unpack: " + problem + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
  return 1;
}

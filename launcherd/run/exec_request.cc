#include "launcherd/run/exec_request.h"

#include <string>

#include "proto/input_window.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline run {
namespace {

constexpr int kMostWords = 4096;
constexpr std::size_t kMostBytes = std::size_t{128} << 10;
constexpr std::size_t kLongestTerm = 64;
constexpr int kLastSignal = 64;
constexpr int kMostCells = 0xffff;

bool has_nul(const std::string& word) {
  return word.find('\0') != std::string::npos;
}

base::Status check_command(const v1::ExecRequest& request) {
  if (request.shell()) {
    if (request.command().empty()) return base::ok_status();
    return base::invalid_argument("command: give a command or `shell`, not both");
  }
  if (request.command().empty() || request.command(0).empty()) {
    return base::invalid_argument("command: the command is empty");
  }
  if (request.command_size() > kMostWords) {
    return base::invalid_argument("command: {} words; at most {} are allowed", request.command_size(), kMostWords);
  }
  std::size_t bytes = 0;
  for (const std::string& word : request.command()) {
    if (has_nul(word)) return base::invalid_argument("command: a word has a NUL byte");
    bytes += word.size() + 1;
  }
  if (bytes > kMostBytes) {
    return base::invalid_argument("command: {} bytes; at most {} are allowed", bytes, kMostBytes);
  }
  return base::ok_status();
}

base::Status check_term(const std::string& term) {
  for (const char letter : term) {
    if (letter <= ' ' || letter > '~' || letter == '/') {
      return base::invalid_argument("term: only visible characters of ASCII without '/' are allowed");
    }
  }
  if (term.size() > kLongestTerm) {
    return base::invalid_argument("term: {} characters; at most {} are allowed", term.size(), kLongestTerm);
  }
  return base::ok_status();
}

// Checks the fields that every request may have.
base::Status check_common(const v1::ExecRequest& request) {
  if (request.has_window_size()) {
    const auto fits = [](int cells) { return cells > 0 && cells <= kMostCells; };
    if (!fits(request.window_size().rows()) || !fits(request.window_size().columns())) {
      return base::invalid_argument("window_size: rows and columns must be from 1 to {}", kMostCells);
    }
  }
  if (request.input().size() > proto::kInputWindow) {
    return base::invalid_argument("input: {} bytes; at most {} are allowed in one request", request.input().size(),
                                  proto::kInputWindow);
  }
  if (request.signal() < 0 || request.signal() > kLastSignal) {
    return base::invalid_argument("signal: {} is not a signal; use 1 to {}", request.signal(), kLastSignal);
  }
  return base::ok_status();
}

}  // namespace

base::Status check_first_request(const v1::ExecRequest& request) {
  MUSTER_RETURN_IF_ERROR(check_command(request));
  if (request.has_rank() && request.rank() < 0) {
    return base::invalid_argument("rank: {} is negative; ranks are counted from 0", request.rank());
  }
  MUSTER_RETURN_IF_ERROR(check_term(request.term()));
  if (!request.terminal() && !request.term().empty()) {
    return base::invalid_argument("term: the command gets no terminal; set `terminal`, or leave this out");
  }
  if (!request.terminal() && request.has_window_size()) {
    return base::invalid_argument("window_size: the command gets no terminal; set `terminal`, or leave this out");
  }
  return check_common(request);
}

base::Status check_next_request(const v1::ExecRequest& request) {
  const char* const field = !request.job().empty()       ? "job"
                            : request.has_rank()         ? "rank"
                            : !request.command().empty() ? "command"
                            : request.shell()            ? "shell"
                            : request.terminal()         ? "terminal"
                            : !request.term().empty()    ? "term"
                                                         : nullptr;
  if (field != nullptr) return base::invalid_argument("{}: only the first request may set this", field);
  return check_common(request);
}

base::Result<int> rank_of_request(const v1::ExecRequest& request, int size) {
  if (!request.has_rank()) {
    if (size == 1) return 0;
    return base::invalid_argument("rank: the job has {} ranks; name one of them", size);
  }
  if (request.rank() < size) return request.rank();
  return base::invalid_argument("rank: unknown rank {}: the job has ranks 0 to {}", request.rank(), size - 1);
}

}  // namespace muster::launcherd::run

// Finds the agent's marker line in what comes out of a remote login shell. A pure value, no I/O; fuzzed.
//
// The line is kAgentMarker + build id + '\n'. What a shell printed before it (start-up files, motd) is skipped, up to
// kMaxNoise bytes, and kept for messages: its first kKeptNoise bytes. Bytes after the line are not consumed.
//
//   MarkerScanner scanner("0123abcd");
//   const auto consumed = scanner.feed(bytes);
//   if (scanner.state() == MarkerScanner::State::kFound) bytes.remove_prefix(consumed);
#pragma once

#include <string>
#include <string_view>

namespace muster::launcherd::inline bootstrap {

class MarkerScanner {
 public:
  static constexpr std::size_t kMaxNoise = 64 * 1024;
  static constexpr std::size_t kKeptNoise = 4096;
  static constexpr std::size_t kMaxIdSize = 128;

  enum class State {
    kSearching,
    kFound,        // the agent of our build speaks from the next byte on
    kOtherBuild,   // a marker with another id: other_id()
    kTooMuchNoise  // more than kMaxNoise bytes without a marker
  };

  explicit MarkerScanner(std::string agent_id) : agent_id_(std::move(agent_id)) {}

  // How many of `bytes` belong to noise and marker line: all of them unless the marker line ends within. Does nothing
  // (returns 0) once the state is not kSearching.
  std::size_t feed(std::string_view bytes);

  State state() const { return state_; }
  const std::string& noise() const { return noise_; }
  const std::string& other_id() const { return other_id_; }

 private:
  void add_noise(std::string_view bytes);
  void on_byte(char byte);
  void restart_with(char byte);

  std::string agent_id_;
  State state_ = State::kSearching;
  std::string noise_;
  std::size_t noise_size_ = 0;
  std::string held_;  // bytes that may be the beginning of a marker line
  std::string other_id_;
};

}  // namespace muster::launcherd::bootstrap

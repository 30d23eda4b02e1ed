// MarkerScanner finds the agent's marker line in the output of a remote login shell. It is a pure value without I/O,
// and is fuzzed.
//
// The marker line is kAgentMarker + build id + '\n'. The scanner skips up to kMaxNoise bytes that a shell prints
// before it, for example from start-up files or motd. It keeps the first kKeptNoise of these bytes for messages. It
// does not consume bytes after the line.
//
// Example:
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
    kFound,        // the next byte is the first one from an agent of our build
    kOtherBuild,   // a marker with another build id; see other_id()
    kTooMuchNoise  // more than kMaxNoise bytes without a marker
  };

  explicit MarkerScanner(std::string agent_id) : agent_id_(std::move(agent_id)) {}

  // Returns how many of `bytes` are noise or marker line. These are all bytes, unless the marker line ends within
  // `bytes`. Returns 0 and does nothing once the state is not kSearching.
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
  std::string held_;  // bytes that may begin a marker line
  std::string other_id_;
};

}  // namespace muster::launcherd::bootstrap

#include "launcherd/bootstrap/packed_send.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "base/strings.h"
#include "launcherd/bootstrap/remote_command.h"

namespace muster::launcherd::inline bootstrap {
namespace {

constexpr std::size_t kMostText = 64 * 1024;  // of stdout and of stderr, before the agent

class PackedSender {
 public:
  PackedSender(RemoteProgram& program, const AgentImage& image, SeedBoard& board, const PackedSendOptions& options,
               const Waiter& waiter, PackedSend& result)
      : program_(program), image_(image), board_(board), options_(options), waiter_(waiter), result_(result) {}
  ~PackedSender() { fail_source(); }
  PackedSender(const PackedSender&) = delete;
  PackedSender& operator=(const PackedSender&) = delete;

  Failure run() {
    for (;;) {
      std::string step;
      if (Failure failure = next_step(step); !failure.ok()) return failure;
      if (step == "shared") {
        result_.is_shared = true;
        return {};
      }
      if (step == "stored" || step.starts_with("stored ")) {
        result_.is_stored = true;
        end_source(step.substr(std::min<std::size_t>(step.size(), 7)));
        return {};
      }
      if (step.starts_with("send ")) {
        if (Failure failure = begin(step.substr(5)); !failure.ok()) return failure;
        options_.on_send();
      } else if ((step == "source" || step.starts_with("source ")) && packed_ != nullptr) {
        send_source(step.substr(std::min<std::size_t>(step.size(), 7)));
      }
    }
  }

 private:
  // Sends what is due until the host's next step.
  Failure next_step(std::string& step) {
    while (!program_.has_ended()) {
      std::string line;
      if (Failure failure = program_.exchange(input_, line, errors_, waiter_); !failure.ok()) {
        if (failure.kind == FailureKind::kTimeout) failure.detail = "while the agent was sent";
        return failure;
      }
      if (input_.empty()) {
        input_ = rest_;
        rest_ = {};
      }
      printed_ += line;
      if (printed_.size() > kMostText || errors_.size() > kMostText) return ended();
      if (!printed_.ends_with('\n')) continue;
      const std::string_view all = std::string_view(printed_).substr(0, printed_.size() - 1);
      step = step_words(all.substr(all.rfind('\n') + 1));
      if (step.empty()) continue;
      printed_.clear();
      return {};
    }
    return ended();
  }

  Failure begin(std::string_view system) {
    result_.system = system;
    const RemoteSystem remote = parse_uname(result_.system);
    if (remote.os != "Linux" || !is_same_machine(remote.arch, image_.machine())) {
      return {.kind = FailureKind::kWrongArch,
              .detail = fmt::format("this agent runs on Linux {}, but the host runs {} {}", image_.machine(), remote.os,
                                    remote.arch)};
    }
    auto packed = image_.load_packed();
    if (!packed.ok()) return {.kind = FailureKind::kNoWrite, .detail = packed.status().message()};
    packed_ = *std::move(packed);
    input_ = packed_->unpacker;
    return {};
  }

  // `why` says what was wrong with the seed that this host tried before. The launcher is the second source.
  void send_source(const std::string& why) {
    const bool has_failed = source_.has_value();
    if (has_failed && source_->seed) {
      options_.on_note(fmt::format("fetching the agent from {} port {} failed ({}), sending it from here",
                                   source_->seed->address, source_->seed->port, quote_for_message(why)));
    }
    fail_source();
    source_ = has_failed ? SeedBoard::Source{} : board_.choose(!options_.host_address.empty(), waiter_);
    if (source_->seed) {
      line_ = fmt::format("fetch {} {} {} {} {}\n", packed_->sha256, packed_->size, board_.token(),
                          source_->seed->address, source_->seed->port);
    } else {
      line_ = fmt::format("unpack {} {} {}{}\n", packed_->sha256, packed_->size, packed_->bytes.size(),
                          source_->becomes_seed ? " " + board_.token() : "");
      rest_ = packed_->bytes;
    }
    input_ = line_;
  }

  void fail_source() {
    if (source_) board_.fail(*source_);
    source_.reset();
  }

  void end_source(const std::string& port_text) {
    int port = 0;
    const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
    const bool is_seed = error == std::errc() && port > 0 && port <= 65535;
    if (source_) {
      board_.succeed(*source_, is_seed ? std::optional(SeedBoard::Seed{options_.host_address, port}) : std::nullopt);
    }
    source_.reset();
  }

  Failure ended() const {
    Failure failure{
        .printed = printed_, .errors = without_ssh_warnings(errors_), .exit_status = program_.exit_status()};
    failure.kind = classify_store_errors(failure.errors);
    if (failure.kind == FailureKind::kNoWrite && failure.exit_status != 1) {
      const FailureKind end = classify_agent_end(failure.exit_status, failure.errors, failure.printed);
      if (end == FailureKind::kNoExec || end == FailureKind::kUnsafeFolder) failure.kind = end;
    }
    return failure;
  }

  RemoteProgram& program_;
  const AgentImage& image_;
  SeedBoard& board_;
  const PackedSendOptions& options_;
  const Waiter& waiter_;
  PackedSend& result_;
  std::shared_ptr<const AgentImage::Packed> packed_;
  std::optional<SeedBoard::Source> source_;  // that the host uses now
  std::string line_;
  std::string_view input_;  // of packed_, or line_
  std::string_view rest_;   // what follows input_
  std::string printed_;
  std::string errors_;
};

}  // namespace

std::string_view step_words(std::string_view line) {
  const std::size_t marker = line.rfind(kStepMarker);
  if (marker == std::string_view::npos) return {};
  return base::trim(line.substr(marker + kStepMarker.size()));
}

Failure send_packed(RemoteProgram& program, const AgentImage& image, SeedBoard& board, const PackedSendOptions& options,
                    const Waiter& waiter, PackedSend& result) {
  return PackedSender(program, image, board, options, waiter, result).run();
}

}  // namespace muster::launcherd::bootstrap

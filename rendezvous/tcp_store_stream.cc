#include "rendezvous/tcp_store_stream.h"

#include <utility>

namespace muster::rendezvous {
namespace {

constexpr std::uint8_t kFirstCodeThatDiffers = 7;
constexpr std::uint8_t kDeleteOrAppend = 8;

}  // namespace

void TorchPeers::no_longer_silent(const std::string& peer) {
  const auto found = silent_.find(peer);
  MUSTER_CHECK(found != silent_.end());
  if (--found->second == 0) silent_.erase(found);
}

TorchRequestStream::TorchRequestStream(TorchPeers* peers, std::string address, const TorchRequestLimits& limits)
    : peers_(peers), address_(std::move(address)), parser_(limits) {
  peers_->opened(address_);
}

TorchRequestStream::~TorchRequestStream() {
  if (is_silent_) peers_->no_longer_silent(address_);
}

void TorchRequestStream::feed(std::string_view bytes) {
  if (is_silent_ && !bytes.empty()) {
    is_silent_ = false;
    peers_->no_longer_silent(address_);
  }
  if (input_.empty()) {
    rest_ = bytes;
  } else {
    input_ += bytes;
    rest_ = input_;
  }
}

void TorchRequestStream::keep() {
  if (is_found_) rest_.remove_prefix(parser_.size());
  is_found_ = false;
  constexpr std::size_t kKeptCapacity = 64 << 10;
  if (rest_.empty()) {
    if (input_.capacity() > kKeptCapacity) std::string().swap(input_);
    input_.clear();
  } else if (input_.empty()) {
    input_ = rest_;
  } else {
    input_.erase(0, input_.size() - rest_.size());
  }
  rest_ = input_;
}

base::Result<bool> TorchRequestStream::next() {
  if (is_found_) rest_.remove_prefix(parser_.size());
  is_found_ = false;
  if (!is_in_request_) {
    MUSTER_ASSIGN_OR_RETURN(is_in_request_, begin());
    if (!is_in_request_) return false;
  }
  MUSTER_ASSIGN_OR_RETURN(bool is_whole, parser_.parse(rest_));
  if (is_whole && dialect_ == Dialect::kOld && static_cast<std::uint8_t>(rest_.front()) == kDeleteOrAppend) {
    settle(is_append() ? TorchGeneration::kB : TorchGeneration::kA);
    if (dialect_ == Dialect::kB) {
      parser_.begin(TorchOp::kAppend);
      MUSTER_ASSIGN_OR_RETURN(is_whole, parser_.parse(rest_));
    }
  }
  if (!is_whole) return false;
  is_in_request_ = false;
  is_found_ = true;
  has_sent_requests_ = true;
  return true;
}

// Called at the first byte of a request. False if more bytes are needed to identify it.
base::Result<bool> TorchRequestStream::begin() {
  if (dialect_ == Dialect::kUnknown && !rest_.empty()) {
    const TorchGreeting greeting = read_torch_greeting(rest_);
    if (greeting == TorchGreeting::kNeedsMore) return false;
    dialect_ = greeting == TorchGreeting::kValidated ? Dialect::kC : Dialect::kOld;
    if (dialect_ == Dialect::kC) rest_.remove_prefix(kTorchGreetingBytes);
  }
  if (rest_.empty()) return false;
  const auto code = static_cast<std::uint8_t>(rest_.front());
  const std::optional<TorchOp> op = op_of(code);
  if (!op) return base::invalid_argument("byte {} does not begin a request of torch's TCPStore", code);
  parser_.begin(*op);
  return true;
}

std::optional<TorchOp> TorchRequestStream::op_of(std::uint8_t code) {
  if (dialect_ == Dialect::kC) return torch_op(TorchGeneration::kC, code);
  if (dialect_ == Dialect::kOld && code == kFirstCodeThatDiffers) {
    if (has_sent_requests_) peers_->learn(TorchGeneration::kB);
    settle(peers_->hint());
  }
  if (dialect_ == Dialect::kOld && code > kDeleteOrAppend && torch_op(TorchGeneration::kB, code)) {
    peers_->learn(TorchGeneration::kB);
    settle(TorchGeneration::kB);
  }
  // While the client may be A or B, parse the codes that both share. For code 8 parse only the key, which both send.
  return torch_op(dialect_ == Dialect::kB ? TorchGeneration::kB : TorchGeneration::kA, code);
}

// Returns true if code 8 means B's APPEND. Call it when a whole key has followed code 8.
bool TorchRequestStream::is_append() const {
  if (rest_.size() > parser_.size()) return true;
  return !peers_->has_silent(address_) || peers_->hint() == TorchGeneration::kB;
}

void TorchRequestStream::settle(TorchGeneration generation) {
  dialect_ = generation == TorchGeneration::kB ? Dialect::kB : Dialect::kA;
}

}  // namespace muster::rendezvous

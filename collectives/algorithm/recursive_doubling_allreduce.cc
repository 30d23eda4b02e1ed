// Ranks exchange their partial results with a partner at distance 1, 2, 4 … Both reduce the same two operands in the
// same order, the lower rank's first, and so get the same bits. If the number of ranks is not a power of two, the first
// ranks fold: each even rank sends its input to the odd rank behind it, and receives the result at the end.
#include <array>
#include <bit>
#include <cstddef>
#include <span>

#include "collectives/algorithm/allreduce.h"

namespace muster::collectives::inline algorithm {
namespace {

class RecursiveDoubling {
 public:
  RecursiveDoubling(Exchange& exchange, const Operation& operation, const ReduceTask& reduction)
      : exchange_(exchange), operation_(operation), reduction_(reduction), other_(exchange.scratch(reduction.bytes())) {
    const auto size = static_cast<unsigned>(exchange.size());
    powers_ = static_cast<int>(std::bit_floor(size));
    folded_ = exchange.size() - powers_;
  }

  base::Status run() {
    const int rank = exchange_.rank();
    // Scale the own operand once; from here on it lies in the output.
    const std::array<const void*, 1> own{reduction_.input};
    reduce(reduction_.type, reduction_.op, own, reduction_.output, reduction_.count, scale_of_inputs(reduction_.scale));

    const bool is_folded = rank < 2 * folded_;
    if (is_folded && rank % 2 == 0) {
      MUSTER_RETURN_IF_ERROR(send(rank + 1));
      return receive(rank + 1, mine());
    }
    if (is_folded) {
      MUSTER_RETURN_IF_ERROR(receive(rank - 1, other_));
      merge(true, powers_ == 1);
    }
    const int index = is_folded ? rank / 2 : rank - folded_;
    for (int distance = 1; distance < powers_; distance *= 2) {
      const int partner = index ^ distance;
      MUSTER_RETURN_IF_ERROR(swap(rank_of(partner)));
      merge(partner < index, distance * 2 == powers_);
    }
    return is_folded ? send(rank - 1) : base::ok_status();
  }

 private:
  std::span<std::byte> mine() const { return {reduction_.out(), reduction_.bytes()}; }
  int rank_of(int index) const { return index < folded_ ? 2 * index + 1 : index + folded_; }

  base::Status send(int peer) {
    exchange_.begin(operation_, Algorithm::kRecursiveDoubling);
    MUSTER_RETURN_IF_ERROR(exchange_.send(peer, mine()));
    return exchange_.run();
  }
  base::Status receive(int peer, std::span<std::byte> place) {
    exchange_.begin(operation_, Algorithm::kRecursiveDoubling);
    MUSTER_RETURN_IF_ERROR(exchange_.receive(peer, place));
    return exchange_.run();
  }
  base::Status swap(int peer) {
    exchange_.begin(operation_, Algorithm::kRecursiveDoubling);
    MUSTER_RETURN_IF_ERROR(exchange_.send(peer, mine()));
    MUSTER_RETURN_IF_ERROR(exchange_.receive(peer, other_));
    return exchange_.run();
  }
  void merge(bool other_is_lower, bool is_last) {
    const std::array<const void*, 2> operands = other_is_lower
                                                    ? std::array<const void*, 2>{other_.data(), reduction_.output}
                                                    : std::array<const void*, 2>{reduction_.output, other_.data()};
    reduce(reduction_.type, reduction_.op, operands, reduction_.output, reduction_.count,
           is_last ? scale_of_result(reduction_.scale) : Scale{});
  }

  Exchange& exchange_;
  const Operation& operation_;
  const ReduceTask& reduction_;
  std::span<std::byte> other_;
  int powers_ = 1;  // the largest power of two that does not exceed the number of ranks
  int folded_ = 0;  // pairs of ranks in which one rank does not join the exchanges
};

}  // namespace

base::Status recursive_doubling_allreduce(Exchange& exchange, const Operation& operation, const ReduceTask& reduction) {
  if (exchange.size() == 1) return one_shot_allreduce(exchange, operation, reduction);
  return RecursiveDoubling(exchange, operation, reduction).run();
}

}  // namespace muster::collectives::algorithm

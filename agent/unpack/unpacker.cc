#include "agent/unpack/unpacker.h"

#include <zstd.h>

namespace muster::agent::inline unpack {
namespace {

constexpr int kMostWindow = 23;  // log2: 8 MiB, more than tools and build of Muster ask for

}  // namespace

void Unpacker::Free::operator()(ZSTD_DCtx_s* context) const {
  ::ZSTD_freeDCtx(context);
}

Unpacker::Unpacker(HashedFile& file) : file_(file), context_(::ZSTD_createDCtx()), piece_(::ZSTD_DStreamOutSize()) {
  if (context_ != nullptr) ::ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kMostWindow);
}

Problem Unpacker::add(std::string_view packed) {
  if (context_ == nullptr) return "no memory to decompress the agent";
  ZSTD_inBuffer from{packed.data(), packed.size(), 0};
  bool has_more = false;  // in the decoder
  while (from.pos < from.size || has_more) {
    if (is_complete_) return "bytes follow the compressed agent";
    ZSTD_outBuffer to{piece_.data(), piece_.size(), 0};
    const std::size_t left = ::ZSTD_decompressStream(context_.get(), &to, &from);
    if (::ZSTD_isError(left) != 0) return std::string("the compressed agent is damaged: ") + ::ZSTD_getErrorName(left);
    is_complete_ = left == 0;
    has_more = !is_complete_ && to.pos == to.size;
    if (Problem problem = file_.write({piece_.data(), to.pos}); !problem.empty()) return problem;
  }
  return {};
}

Problem Unpacker::check_end() const {
  return is_complete_ ? Problem() : "the compressed agent is cut off";
}

}  // namespace muster::agent::unpack

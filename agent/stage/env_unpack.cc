#include "agent/stage/env_unpack.h"

#include <zstd.h>

#include <memory>
#include <utility>
#include <vector>

namespace muster::agent::inline stage {
namespace {

using base::Result;
using base::Status;

constexpr int kMostWindow = 23;  // log2: 8 MiB, more than the launcher's level asks for

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ::ZSTD_freeDCtx(context); }
};

// Decompresses one frame.
class Frame {
 public:
  Frame() : context_(::ZSTD_createDCtx()), piece_(::ZSTD_DStreamOutSize()) {
    if (context_ != nullptr) ::ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kMostWindow);
  }

  Status add(std::string_view packed, proto::EnvReader& to) {
    if (context_ == nullptr) return base::resource_exhausted("no memory to unpack the environment");
    ZSTD_inBuffer from{packed.data(), packed.size(), 0};
    bool has_more = false;  // in the decoder
    while (from.pos < from.size || has_more) {
      if (is_complete_) return base::data_loss("the packed environment is damaged: bytes follow its end");
      ZSTD_outBuffer out{piece_.data(), piece_.size(), 0};
      const std::size_t left = ::ZSTD_decompressStream(context_.get(), &out, &from);
      if (::ZSTD_isError(left) != 0) {
        return base::data_loss("the packed environment is damaged: {}", ::ZSTD_getErrorName(left));
      }
      is_complete_ = left == 0;
      has_more = !is_complete_ && out.pos == out.size;
      MUSTER_RETURN_IF_ERROR(to.add({piece_.data(), out.pos}));
    }
    return base::ok_status();
  }

 private:
  std::unique_ptr<ZSTD_DCtx, FreeContext> context_;
  std::vector<char> piece_;
  bool is_complete_ = false;
};

}  // namespace

Result<std::string> unpack_environment(const ReadArchive& read, EnvTree& tree, const std::atomic<bool>* stop) {
  MUSTER_ASSIGN_OR_RETURN(
      proto::EnvReader reader,
      proto::EnvReader::begin({.begin = [&](const proto::EnvEntry& entry) { return tree.begin(entry); },
                               .content = [&](std::string_view bytes) { return tree.content(bytes); },
                               .end = [&](const proto::EnvEntry& entry) { return tree.end(entry); }}));
  Frame frame;
  while (true) {
    if (stop != nullptr && *stop) return base::cancelled("unpacking was cancelled");
    MUSTER_ASSIGN_OR_RETURN(const std::string_view packed, read());
    if (packed.empty()) return reader.finish();
    MUSTER_RETURN_IF_ERROR(frame.add(packed, reader));
  }
}

}  // namespace muster::agent::stage

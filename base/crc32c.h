// CRC-32C (Castagnoli), the checksum of iSCSI (RFC 3720, appendix B.4) and of TensorBoard's files. For small amounts of
// data: about 400 MB/s. Pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::base {

std::uint32_t crc32c(std::string_view bytes);

}  // namespace muster::base

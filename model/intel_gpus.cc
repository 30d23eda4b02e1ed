// Intel's devices: tiles of GPUs, ZE_AFFINITY_MASK, and the GPUs that a user describes.
// Read intel_devices() first, then masked() and whole_gpus(), which it calls.
#include "model/intel_gpus.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::model {
namespace {

using base::Result;

constexpr int kMostNumber = kMostGpus * kMostTiles;

struct Tile {
  const GpuShape* gpu = nullptr;
  int number = 0;  // within the GPU
  int flat = 0;    // among the tiles of all GPUs
};

std::vector<Tile> tiles_of(const NodeShape& node) {
  std::vector<Tile> tiles;
  for (const GpuShape& gpu : node.gpus) {
    if (gpu.vendor != GpuVendor::kIntel) continue;
    for (int number = 0; number < std::clamp(gpu.tiles, 1, kMostTiles); ++number) {
      tiles.push_back({&gpu, number, static_cast<int>(tiles.size())});
    }
  }
  return tiles;
}

Result<bool> is_composite(const std::optional<std::string>& hierarchy) {
  if (!hierarchy || hierarchy->empty() || *hierarchy == "FLAT" || *hierarchy == "COMBINED") return false;
  if (*hierarchy == "COMPOSITE") return true;
  return base::invalid_argument("ZE_FLAT_DEVICE_HIERARCHY is '{}', but must be FLAT, COMPOSITE or COMBINED",
                                base::printable(*hierarchy));
}

// Returns true if a word of a mask names the tile. nullopt if the word is invalid in a mask.
std::optional<bool> is_named(const Tile& tile, std::string_view word, bool composite) {
  const auto dot = word.find('.');
  const auto device = base::parse_decimal(word.substr(0, dot), kMostNumber);
  if (!device) return std::nullopt;
  if (!composite) return dot == std::string_view::npos ? std::optional(*device == tile.flat) : std::nullopt;
  if (*device != tile.gpu->index) return false;
  if (dot == std::string_view::npos) return true;
  const auto number = base::parse_decimal(word.substr(dot + 1), kMostTiles);
  return number ? std::optional(*number == tile.number) : std::nullopt;
}

// Returns the tiles that the user's mask leaves, in the order of the devices. The mask's order does not count, because
// Level Zero ignores it, too.
Result<std::vector<Tile>> masked(const std::vector<Tile>& all, const std::string& mask, bool composite) {
  std::vector<bool> is_left(all.size(), false);
  for (const std::string_view word : base::split(mask, ',')) {
    bool is_there = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto named = is_named(all[i], base::trim(word), composite);
      if (!named) {
        return base::invalid_argument(
            "ZE_AFFINITY_MASK holds '{}', which names nothing with ZE_FLAT_DEVICE_HIERARCHY={}", base::printable(word),
            composite ? "COMPOSITE" : "FLAT");
      }
      if (*named) is_left[i] = is_there = true;
    }
    if (!is_there) {
      return base::invalid_argument("ZE_AFFINITY_MASK names '{}', but the host has {} tiles", base::printable(word),
                                    all.size());
    }
  }
  std::vector<Tile> left;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_left[i]) left.push_back(all[i]);
  }
  return left;
}

std::string name_of(const Tile& tile, bool composite) {
  return composite ? fmt::format("{}.{}", tile.gpu->index, tile.number) : fmt::format("{}", tile.flat);
}

// Joins neighbouring tiles of one GPU.
std::vector<VisibleGpu> whole_gpus(const std::vector<Tile>& tiles, bool composite) {
  std::vector<VisibleGpu> gpus;
  for (const Tile& tile : tiles) {
    if (!gpus.empty() && gpus.back().gpu == tile.gpu) {
      gpus.back().name += "," + name_of(tile, composite);
      continue;
    }
    VisibleGpu& gpu = gpus.emplace_back();
    gpu.gpu = tile.gpu;
    gpu.name = name_of(tile, composite);
  }
  if (!composite) return gpus;
  for (VisibleGpu& gpu : gpus) {
    const auto left = std::ranges::count(tiles, gpu.gpu, &Tile::gpu);
    if (left >= gpu.gpu->tiles) gpu.name = fmt::format("{}", gpu.gpu->index);
  }
  return gpus;
}

}  // namespace

bool are_numbers_of_bus(const GpuMasks& masks) {
  return !masks.ze || masks.ze->empty() || masks.ze_order == "1";
}

Result<std::vector<VisibleGpu>> intel_devices(const NodeShape& node, GpuBind gpu_bind, const GpuMasks& masks) {
  std::vector<Tile> tiles = tiles_of(node);
  if (tiles.empty()) return std::vector<VisibleGpu>();
  MUSTER_ASSIGN_OR_RETURN(const bool composite, is_composite(masks.ze_hierarchy));
  const auto has_other_tiles = [&](const Tile& tile) { return tile.gpu->tiles != tiles.front().gpu->tiles; };
  if (!are_numbers_of_bus(masks) && std::ranges::any_of(tiles, has_other_tiles)) {
    return base::invalid_argument(
        "ZE_AFFINITY_MASK is set, and the GPUs differ: set ZE_ENABLE_PCI_ID_DEVICE_ORDER=1, so that its "
        "numbers have a known meaning");
  }
  if (masks.ze && !masks.ze->empty()) {
    MUSTER_ASSIGN_OR_RETURN(tiles, masked(tiles, *masks.ze, composite));
  }
  if (gpu_bind != GpuBind::kTile) return whole_gpus(tiles, composite);
  std::vector<VisibleGpu> devices;
  for (const Tile& tile : tiles) {
    VisibleGpu& device = devices.emplace_back();
    device.name = name_of(tile, composite);
    device.gpu = tile.gpu;
    device.tile = tile.number;
  }
  return devices;
}

NodeShape with_described_gpus(const NodeShape& node, const Pinning& pinning) {
  NodeShape described = node;
  const bool has_intel =
      std::ranges::any_of(node.gpus, [](const GpuShape& gpu) { return gpu.vendor == GpuVendor::kIntel; });
  if (has_intel) return described;
  for (int i = 0; i < pinning.gpus; ++i) {
    GpuShape& gpu = described.gpus.emplace_back();
    gpu.vendor = GpuVendor::kIntel;
    gpu.index = i;
    gpu.tiles = pinning.tiles;
  }
  return described;
}

}  // namespace muster::model

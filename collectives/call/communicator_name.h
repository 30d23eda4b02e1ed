// Derives the names of communicators that are made from others. All ranks derive the same name without communicating,
// and no two communicators of a world share one. However deep communicators are nested, their names fit the space in
// connections and shared memory.
#pragma once

#include <span>
#include <string>

namespace muster::collectives::inline call {

// Returns the name of the part with this color in the `number`th split of `parent`.
std::string name_of_part(const std::string& parent, int number, int color);
// Returns the name of the `number`th group with these ranks of the world, in this order.
std::string name_of_group(const std::string& parent, std::span<const int> members, int number);

}  // namespace muster::collectives::call

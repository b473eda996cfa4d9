"""From wish and model to changes: planners, guard, rendering; nothing here touches a host."""

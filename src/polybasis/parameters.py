"""Constructor parameters as scikit-learn reads and sets them, without importing scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Literal, Self


class NotFittedError(ValueError, AttributeError):
    """An estimator is used before it is fitted. As in scikit-learn, ``hasattr`` is False for its fitted attributes."""


class Parameters:
    """An estimator whose constructor only stores its parameters, each in an attribute of the same name.

    A constructor may also take ``**arguments``, stored as a dictionary ``arguments``; each of them is a parameter. The
    values are checked by ``fit``. This is what ``clone`` and ``GridSearchCV`` of scikit-learn require.
    """

    _kind: ClassVar[Literal["classifier", "regressor", "transformer"]]
    arguments: dict[str, Any]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name.

        Args:
            deep: without effect; parameters are not estimators.
        """
        return {name: getattr(self, name) for name in self._defaults()} | getattr(self, "arguments", {})

    def set_params(self, **params: Any) -> Self:
        """Changes parameters; :meth:`fit` checks the values.

        Raises:
            ValueError: for an unknown name, unless the constructor takes any.
        """
        named = self._defaults()
        for name, value in params.items():
            if name in named:
                setattr(self, name, value)
            elif hasattr(self, "arguments"):
                self.arguments = self.arguments | {name: value}
            else:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; expected {', '.join(named)}")
        return self

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The named parameters of the constructor and their defaults."""
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return {item.name: item.default for item in parameters if item.kind is not item.VAR_KEYWORD}

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=self._kind,
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if self._kind == "classifier" else None,
            regressor_tags=RegressorTags() if self._kind == "regressor" else None,
            transformer_tags=TransformerTags() if self._kind == "transformer" else None,
        )

    def __repr__(self) -> str:
        defaults = self._defaults()
        given = ", ".join(
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if name not in defaults or value != defaults[name]
        )
        return f"{type(self).__name__}({given})"
